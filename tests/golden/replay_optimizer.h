// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/golden/device.h"
#include "tests/golden/safetensors.h"

namespace shampoo::golden {

// Which rank an optimizer is; without communicators there is one.
struct Place {
  const shampoo_comm_ops* replica_ops = nullptr;
  const shampoo_comm_ops* shard_ops = nullptr;
  const shampoo_comm_ops* world_ops = nullptr;  // of all ranks, for checkpoints
  Device* device = nullptr;                     // where the optimizer works; nullptr: on the host
  bool rectangles = false;  // of shards: slices along dim 0; else equal parts of the flattened parameter
};

// The optimizer of one rank that a case describes ("shapes", "param_dtype", "groups"), with the parameters it moves, or
// its shards of them, which start as the case's init/<p> and are updated in place. Every failure is a
// std::runtime_error with the library's message.
class ReplayOptimizer {
 public:
  // threads: 0 leaves the number to the library. Gradients are expected in the dtype of the parameters.
  ReplayOptimizer(const nlohmann::json& settings, const TensorFile& data, const Place& place, int32_t threads,
                  const std::vector<std::pair<std::string, std::string>>& keys);
  ~ReplayOptimizer();
  ReplayOptimizer(const ReplayOptimizer&) = delete;
  ReplayOptimizer& operator=(const ReplayOptimizer&) = delete;

  // One learning rate per group, in the order of "groups".
  void SetLearningRates(const std::vector<double>& rates);

  // One step; gradients[p] holds gradient p, all of it, or is nullptr where the parameter has none.
  void Step(const std::vector<const void*>& gradients);

  // Collective over all ranks: the states alone.
  void Save(const std::string& directory);
  void Load(const std::string& directory);

  const std::vector<Tensor>& Params() const { return params_; }

 private:
  // Elements of the flattened parameter.
  struct Cut {
    int64_t first = 0;
    int64_t count = 0;
  };
  // A parameter, and room for its gradient, on a device.
  struct OnDevice {
    void* param = nullptr;
    void* grad = nullptr;
  };
  void AllocateOnDevice();
  void* Stream() const { return place_.device == nullptr ? nullptr : place_.device->stream(); }
  Cut CutOf(const std::vector<int64_t>& shape) const;
  void Build(const nlohmann::json& settings, int32_t threads);
  void Destroy();
  void AddParams(const nlohmann::json& settings);

  Place place_;
  std::vector<std::pair<std::string, std::string>> keys_;
  std::vector<Tensor> params_;
  std::vector<Cut> cuts_;
  std::vector<OnDevice> on_device_;
  std::vector<int32_t> group_ids_;
  shampoo_plan* plan_ = nullptr;
  shampoo_comm* world_ = nullptr;
  shampoo_optimizer* optimizer_ = nullptr;
};

}  // namespace shampoo::golden

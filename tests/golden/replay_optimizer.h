// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/golden/device.h"
#include "tests/golden/safetensors.h"

namespace shampoo::golden {

// The rank and the communicators of an optimizer; without communicators there is one rank.
struct RankPlacement {
  const shampoo_comm_ops* replica_ops = nullptr;
  const shampoo_comm_ops* shard_ops = nullptr;
  const shampoo_comm_ops* world_ops = nullptr;  // all ranks, for checkpoints
  Device* device = nullptr;                     // device of the optimizer; nullptr: the host
  bool rectangles = false;  // shards are slices along dim 0; otherwise equal parts of the flattened parameter
};

// The optimizer of one rank in the replay of a case, made from the settings "shapes", "param_dtype" and "groups". It
// has the parameters, or the shards of them that this rank holds. They start as init/<p> of the case and are updated in
// place. Every failure is a std::runtime_error with the library's message.
class ReplayOptimizer {
 public:
  // threads: 0 lets the library choose. keys: keys and values to set in addition to those of the case. Gradients have
  // the dtype of the parameters.
  ReplayOptimizer(const nlohmann::json& settings, const TensorFile& data, const RankPlacement& placement,
                  int32_t threads, const std::vector<std::pair<std::string, std::string>>& keys);
  ~ReplayOptimizer();
  ReplayOptimizer(const ReplayOptimizer&) = delete;
  ReplayOptimizer& operator=(const ReplayOptimizer&) = delete;

  // Sets a changeable key to one value for each group, in the order of "groups".
  void SetInGroups(const char* key, const std::vector<double>& values);

  // Makes a step. gradients[p] is the whole gradient p, or nullptr if the parameter has none.
  void Step(const std::vector<const void*>& gradients);

  // Exports the averages of the parameters, or of this rank's shards: (1 - blend) W + blend * average.
  void Export(double blend);
  // Returns what the last export wrote.
  const std::vector<Tensor>& Exported() const { return exported_; }

  // Perturbs all factor matrices of the state.
  void PerturbFactors(std::mt19937_64* random);

  // Collective over all ranks. Only the states are saved and loaded.
  void Save(const std::string& directory);
  void Load(const std::string& directory);

  const std::vector<Tensor>& Params() const { return params_; }

 private:
  // The elements of the flattened parameter that this rank holds.
  struct ShardRange {
    int64_t first = 0;
    int64_t count = 0;
  };
  // A parameter and memory for its gradient on a device.
  struct OnDevice {
    void* param = nullptr;
    void* grad = nullptr;
  };
  void AllocateOnDevice();
  void* Stream() const { return placement_.device == nullptr ? nullptr : placement_.device->stream(); }
  ShardRange RangeOf(const std::vector<int64_t>& shape) const;
  void Build(const nlohmann::json& settings, int32_t threads);
  void Destroy();
  void AddParams(const nlohmann::json& settings);

  RankPlacement placement_;
  std::vector<std::pair<std::string, std::string>> keys_;
  std::vector<Tensor> params_;
  std::vector<Tensor> exported_;
  std::vector<ShardRange> ranges_;  // by parameter
  std::vector<OnDevice> on_device_;
  std::vector<int32_t> group_ids_;
  shampoo_plan* plan_ = nullptr;
  shampoo_comm* world_ = nullptr;
  shampoo_optimizer* optimizer_ = nullptr;
};

}  // namespace shampoo::golden

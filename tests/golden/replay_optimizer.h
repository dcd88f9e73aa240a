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

// The communicators and the device of an optimizer. The field `rank` of each communicator is the number of the
// optimizer's rank in it. Without communicators, there is one rank.
struct RankPlacement {
  const shampoo_comm_ops* replica_ops = nullptr;
  const shampoo_comm_ops* shard_ops = nullptr;
  const shampoo_comm_ops* world_ops = nullptr;  // communicator of all ranks, for checkpoints
  Device* device = nullptr;                     // device of the optimizer; nullptr: the CPU
  bool rectangles = false;  // true: shards are slices along dim 0; false: equal parts of the flattened parameter
};

// The optimizer of one rank in the replay of a case. The settings "shapes", "param_dtype" and "groups" of the case
// describe the parameters. This class owns the parameters, or this rank's shards of them, which steps update in place.
// The initial value of parameter p is the tensor init/<p> of the case. Functions throw std::runtime_error on failure.
class ReplayOptimizer {
 public:
  // threads: 0 lets the library choose. keys: keys and values to set after the keys of the case. Gradients have the
  // dtype of the parameters.
  ReplayOptimizer(const nlohmann::json& settings, const TensorFile& data, const RankPlacement& placement,
                  int32_t threads, const std::vector<std::pair<std::string, std::string>>& keys);
  ~ReplayOptimizer();
  ReplayOptimizer(const ReplayOptimizer&) = delete;
  ReplayOptimizer& operator=(const ReplayOptimizer&) = delete;

  // Sets a key that can change between steps. values: one value for each group, in the order of "groups".
  void SetInGroups(const char* key, const std::vector<double>& values);

  // Makes a step. gradients[p] is the whole gradient of parameter p, or nullptr if parameter p has none.
  void Step(const std::vector<const void*>& gradients);

  // Exports (1 - blend) W + blend * average for each parameter W, or for this rank's shard of W.
  void Export(double blend);
  // Returns what the last export wrote.
  const std::vector<Tensor>& Exported() const { return exported_; }

  // Perturbs all factor matrices of the state (perturb.h).
  void PerturbFactors(std::mt19937_64* random);

  // These functions save and load the states, without the parameters. All ranks must call them.
  void Save(const std::string& directory);
  void Load(const std::string& directory);

  const std::vector<Tensor>& Params() const { return params_; }

 private:
  // The elements of a flattened parameter that this rank holds.
  struct ShardRange {
    int64_t first = 0;
    int64_t count = 0;
  };
  // Memory of a parameter and of its gradient on a device.
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
  std::vector<ShardRange> ranges_;  // indexed by parameter
  std::vector<OnDevice> on_device_;
  std::vector<int32_t> group_ids_;
  shampoo_plan* plan_ = nullptr;
  shampoo_comm* world_ = nullptr;
  shampoo_optimizer* optimizer_ = nullptr;
};

}  // namespace shampoo::golden

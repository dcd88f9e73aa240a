// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/golden/rank_comms.h"
#include "tests/golden/replay_optimizer.h"
#include "tests/golden/replay_options.h"

namespace shampoo::golden {

// The optimizers of a case on one or more ranks, each with its own parameters. The ranks are threads, which communicate
// through callbacks, or processes, of which this process is one. After each step, all replicas of a parameter must be
// bit-identical.
class ReplayRanks {
 public:
  ReplayRanks(const nlohmann::json& settings, const TensorFile& data, const ReplayOptions& options);

  // Sets a changeable key to one value for each group.
  void SetInGroups(const char* key, const std::vector<double>& values);
  // Makes a step with gradients of whole parameters. nullptr stands for a parameter without a gradient.
  void Step(const std::vector<const void*>& gradients);
  // Exports the averages of the whole parameters.
  std::vector<Tensor> Export(double blend);
  // Perturbs the factor matrices of all ranks.
  void PerturbFactors(std::mt19937_64* random);
  // Save and load the states of all ranks.
  void Save(const std::string& directory);
  void Load(const std::string& directory);
  // Returns the whole parameters, assembled from the shards.
  const std::vector<Tensor>& Params() const { return params_; }

 private:
  // Indexed by replica, then by shard.
  ReplayOptimizer& At(int replica, int shard) {
    return *ranks_[static_cast<size_t>(replica * options_.shards + shard)];
  }
  template <typename Work>
  void OnEvery(Work&& work);
  void Collect();
  template <typename TensorsOf>
  void CollectTo(TensorsOf&& tensors_of, std::vector<Tensor>* whole);
  std::vector<std::byte> GatherShards(const Tensor& own, size_t all);

  ReplayOptions options_;
  bool process_is_shard_ = false;
  std::vector<shampoo_comm_ops> world_ops_;  // by rank
  std::vector<std::unique_ptr<RankComms>> comms_;
  std::vector<shampoo_comm_ops> replica_ops_;  // by rank
  std::vector<shampoo_comm_ops> shard_ops_;
  std::vector<std::unique_ptr<ReplayOptimizer>> ranks_;
  std::vector<Tensor> params_;
};

}  // namespace shampoo::golden

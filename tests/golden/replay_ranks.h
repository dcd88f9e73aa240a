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

// Replays a case on one or more ranks. Each rank has its own ReplayOptimizer with its own parameters. Either all ranks
// are threads of this process, or each rank is a process and this class has only the rank of this process. A step
// throws unless all replicas of a parameter in this process are bit-identical.
class ReplayRanks {
 public:
  ReplayRanks(const nlohmann::json& settings, const TensorFile& data, const ReplayOptions& options);

  // Sets a key that can change between steps. values: one value for each group.
  void SetInGroups(const char* key, const std::vector<double>& values);
  // Makes a step. gradients[p] is the gradient of the whole parameter p, or nullptr if the parameter has none.
  void Step(const std::vector<const void*>& gradients);
  // Returns (1 - blend) W + blend * average for each whole parameter W.
  std::vector<Tensor> Export(double blend);
  // Perturbs the factor matrices of all ranks (perturb.h).
  void PerturbFactors(std::mt19937_64* random);
  // Save and load the states of all ranks.
  void Save(const std::string& directory);
  void Load(const std::string& directory);
  // Returns the whole parameters, assembled from the shards.
  const std::vector<Tensor>& Params() const { return params_; }

 private:
  // Returns the optimizer of the rank that holds this shard of this replica.
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
  std::vector<shampoo_comm_ops> world_ops_;  // indexed by rank
  std::vector<std::unique_ptr<RankComms>> comms_;
  std::vector<shampoo_comm_ops> replica_ops_;  // indexed by rank
  std::vector<shampoo_comm_ops> shard_ops_;    // indexed by rank
  std::vector<std::unique_ptr<ReplayOptimizer>> ranks_;
  std::vector<Tensor> params_;
};

}  // namespace shampoo::golden

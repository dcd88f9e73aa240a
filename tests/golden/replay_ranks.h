// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/golden/how.h"
#include "tests/golden/rank_comms.h"
#include "tests/golden/replay_optimizer.h"

namespace shampoo::golden {

// The optimizer of a case on one rank or on many, each with parameters of its own: ranks are threads over communicators
// of callbacks, or processes of which this is one. After each step all copies of a parameter must have the same bits.
class ReplayRanks {
 public:
  ReplayRanks(const nlohmann::json& settings, const TensorFile& data, const How& how);

  void SetLearningRates(const std::vector<double>& rates);
  // Gradients of whole parameters; nullptr where there is none.
  void Step(const std::vector<const void*>& gradients);
  // The states of all ranks.
  void Save(const std::string& directory);
  void Load(const std::string& directory);
  // Whole, put together from the shards.
  const std::vector<Tensor>& Params() const { return params_; }

 private:
  // By replica, then by shard.
  ReplayOptimizer& At(int replica, int shard) { return *ranks_[static_cast<size_t>(replica * how_.shards + shard)]; }
  template <typename Work>
  void OnEvery(Work&& work);
  void Collect();
  std::vector<std::byte> GatherShards(size_t p);

  How how_;
  bool process_is_shard_ = false;
  std::vector<shampoo_comm_ops> world_ops_;  // by rank
  std::vector<std::unique_ptr<RankComms>> comms_;
  std::vector<shampoo_comm_ops> replica_ops_;  // by rank
  std::vector<shampoo_comm_ops> shard_ops_;
  std::vector<std::unique_ptr<ReplayOptimizer>> ranks_;
  std::vector<Tensor> params_;
};

}  // namespace shampoo::golden

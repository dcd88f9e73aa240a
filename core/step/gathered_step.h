// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "core/step/block_gather.h"
#include "core/step/host_step.h"

namespace shampoo {

// The step of an optimizer whose blocks are gathered from the shards of several ranks (shard_mode gather). For each
// bucket: collect gradients and parameters of whole blocks at their owners, compute, deliver the updates to the holders
// of the parameters, share them with the other copies, and apply them.
class GatheredStep final : public HostStep {
 public:
  GatheredStep(const StepInputs& inputs, std::shared_ptr<CpuBackend> backend, std::unique_ptr<ShardRounds> shards,
               std::unique_ptr<BlockGather> gather, std::unique_ptr<ReplicaSharing> replicas);
  Status Step(Status caller_status, void* stream) override;

 private:
  // The rounds of a bucket, in their order. With several copies of the parameters the first bucket has an agreement of
  // the shard ranks after it was shared.
  enum class Phase { kCollect, kDeliver, kShare };

  void CheckShards(StepVerdict* verdict);
  void TakeAgreedGradients();
  void CheckWholeBlocks(StepVerdict* verdict);
  Status CheckRound(size_t round, CheckResult* result);
  Status StepNothing(StepVerdict verdict);
  Status StepBucket(int64_t bucket, const StepVerdict& verdict);
  void CheckOwnedStates(size_t round);
  void ApplyDelivered(int64_t bucket);
  // Reports a failure in the rounds that ranks which do not know of it still join, and returns it.
  Status Fail(Status failure, int64_t bucket, Phase phase);
  void ListRound(size_t round);
  size_t OwnRound(int64_t bucket) const { return gather_->RoundIndex(bucket, inputs_.plan.placement.replica_rank); }
  char* ArrivedFromOwn(int64_t bucket) const {
    return replicas_->ArrivedFrom(bucket, inputs_.plan.placement.replica_rank);
  }
  int64_t bucket_count() const { return static_cast<int64_t>(inputs_.plan.bucket_count); }

  std::unique_ptr<ShardRounds> shards_;
  std::unique_ptr<BlockGather> gather_;
  std::unique_ptr<ReplicaSharing> replicas_;
  std::vector<StepItem*> round_items_;  // the blocks of a round that take part here
  std::vector<SliceItem> slice_items_;
};

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "core/step/block_gather.h"
#include "core/step/host_step.h"

namespace shampoo {

// The step of an optimizer whose blocks are gathered from the shards of several ranks (shard_mode=gather). For each
// bucket:
//   1. collect gradients and parameters of whole blocks at their owners;
//   2. compute the updates;
//   3. deliver the updates to the ranks that hold elements of the blocks;
//   4. share the updates with the other replicas;
//   5. apply the updates.
// Numbers 1 to 3 handle one pass (GatherPass): those blocks of the bucket that are owned by ranks of this replica.
class GatheredStep final : public HostStep {
 public:
  GatheredStep(const StepInputs& inputs, std::shared_ptr<CpuBackend> backend, std::unique_ptr<ShardRounds> shards,
               std::unique_ptr<BlockGather> gather, std::unique_ptr<ReplicaSharing> replicas);
  Status Step(Status caller_status, void* stream) override;
  Status Export(Status caller_status, double blend, std::span<void* const> weights) override;

 private:
  // The rounds of a bucket, in order. With several replicas, the shard ranks also agree on errors after kShare of the
  // first bucket.
  enum class Phase { kCollect, kDeliver, kShare };

  void CheckShards(StepDecision* decision);
  void TakeAgreedGradients();
  void CheckWholeBlocks(StepDecision* decision);
  Status CheckPass(size_t pass, CheckResult* result);
  Status EndWithoutStep(StepDecision decision);
  Status JoinRejected(StepDecision decision);
  Status ExportBucket(int64_t bucket, const StepDecision& decision);
  Status StepBucket(int64_t bucket, const StepDecision& decision);
  void CheckOwnedStates(size_t pass);
  template <typename Take>
  void ApplyDelivered(int64_t bucket, Take&& take);
  // Call after the round `phase` of a bucket has failed. Joins the next rounds with ranks that may not know of the
  // failure, only to report it. Returns the failure.
  Status Fail(Status failure, int64_t bucket, Phase phase);
  void ListPass(size_t pass);
  size_t OwnPass(int64_t bucket) const { return gather_->PassIndex(bucket, inputs_.plan.placement.replica_rank); }
  // Returns the buffer that receives the updates from owners in this rank's own replica.
  char* ArrivedFromOwnReplica(int64_t bucket) const {
    return replicas_->ArrivedFrom(bucket, inputs_.plan.placement.replica_rank);
  }
  int64_t bucket_count() const { return static_cast<int64_t>(inputs_.plan.bucket_count); }

  std::unique_ptr<ShardRounds> shards_;
  std::unique_ptr<BlockGather> gather_;
  std::unique_ptr<ReplicaSharing> replicas_;
  // Items of the blocks that this rank collected in a pass, except blocks without a gradient and items whose
  // skip_update is true.
  std::vector<StepItem*> pass_items_;
  std::vector<SliceItem> slice_items_;
  std::vector<char> none_;  // flags by parameter, all 0: no parameter takes part
};

}  // namespace shampoo

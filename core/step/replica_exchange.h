// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/memory.h"
#include "core/comm/round.h"
#include "core/comm/segment_header.h"
#include "core/step/replica_inputs.h"
#include "core/step/shard_agreement.h"
#include "core/step/step_context.h"
#include "core/step/step_strategy.h"

namespace shampoo {

// Exchanges the updates of blocks between all replicas, bucket by bucket.
class ReplicaSharing {
 public:
  virtual ~ReplicaSharing() = default;
  // Returns an error if a collective of the replicas' communicator failed in an earlier call.
  virtual Status PriorFailure() const = 0;
  // Exchanges the updates of a bucket. In the exchange of the first bucket, the replicas also compare their inputs.
  // After this first exchange, they agree on its result with the ranks that hold other shards
  // (ShardAgreement::AgreeAgain()): if a rank has failed, all ranks return an error.
  virtual Status Share(int64_t bucket, const StepDecision& decision, const StepContext& context,
                       ShardAgreement* shards) = 0;
  // Joins the exchange of a bucket only to report a failure of this rank to the other replicas. Sends no updates.
  virtual void Report(int64_t bucket, const Status& failure) = 0;
  // Calls Report(). If the bucket is the first one, then also reports the failure to the ranks that hold other shards.
  virtual void ReportWithShards(int64_t bucket, const Status& failure, ShardAgreement* shards) = 0;
  // Makes the next step return an error if another rank has reported an inverse root that failed too often in a row.
  // Call this function after a step.
  virtual void DeferRootFailures() = 0;
  // Only with shard_mode=gather: returns the memory that receives updates of those blocks of the bucket whose owners
  // belong to `replica`. This rank receives the updates of the elements that it holds.
  virtual char* ArrivedFrom(int64_t bucket, int replica) const = 0;
};

// For a single replica, which has no other replica to exchange updates with.
class SingleReplica final : public ReplicaSharing {
 public:
  // arrived: with shard_mode=gather, the buffer that receives updates from other shard ranks; otherwise nullptr.
  explicit SingleReplica(char* arrived) : arrived_(arrived) {}
  Status PriorFailure() const override { return {}; }
  Status Share(int64_t /*bucket*/, const StepDecision& decision, const StepContext& /*context*/,
               ShardAgreement* /*shards*/) override {
    return decision.status.Copy();
  }
  void Report(int64_t /*bucket*/, const Status& /*failure*/) override {}
  void ReportWithShards(int64_t /*bucket*/, const Status& /*failure*/, ShardAgreement* /*shards*/) override {}
  void DeferRootFailures() override {}
  char* ArrivedFrom(int64_t /*bucket*/, int /*replica*/) const override { return arrived_; }

 private:
  char* arrived_;
};

// For several replicas: each replica sends the updates of the blocks that it owns. The exchange of a bucket is one
// all-gather in a buffer whose layout the plan has computed. All replicas must call the same functions in the same
// order.
class ReplicaExchange final : public ReplicaSharing {
 public:
  // optimizer: the number from Communicator::TakeOptimizerId().
  static Status Create(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer,
                       const HostAllocator& allocator, CpuBackend* backend, std::unique_ptr<ReplicaExchange>* out);

  int64_t buckets() const { return static_cast<int64_t>(segment_bytes_.size()); }
  // Returns the address of a block's update in the buffer of the exchange.
  char* UpdateOf(const Block& block) const { return SegmentOf(block.bucket, block.owner) + block.exchange_offset; }

  Status PriorFailure() const override { return rounds_.PriorFailure(); }
  Status Share(int64_t bucket, const StepDecision& decision, const StepContext& context,
               ShardAgreement* shards) override;
  void Report(int64_t bucket, const Status& failure) override;
  void ReportWithShards(int64_t bucket, const Status& failure, ShardAgreement* shards) override;
  void DeferRootFailures() override;
  char* ArrivedFrom(int64_t bucket, int replica) const override {
    return SegmentOf(bucket, replica) + kSegmentHeaderBytes;
  }

 private:
  ReplicaExchange(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer);
  char* SegmentOf(int64_t bucket, int rank) const {
    return buffer_.data() + rank * segment_bytes_[static_cast<size_t>(bucket)];
  }
  SegmentHeader EmptyHeader(int64_t bucket, const Status& own) const;
  SegmentHeader HeaderFor(int64_t bucket, const StepDecision& decision, const StepContext& context);
  Status ShareUpdates(int64_t bucket, const StepDecision& decision, const StepContext& context);
  Status Gather(int64_t bucket, const SegmentHeader& own);
  Status EndEarly(Status status);
  Status CheckFailures(const Status& own);
  Status CompareSteps();

  StepInputs inputs_;
  Rounds rounds_;
  std::vector<int64_t> segment_bytes_;  // by bucket: the bytes that each rank sends
  Allocation buffer_;
  std::vector<SegmentHeader> headers_;  // by rank: the header from the last exchange
  int64_t factor_count_ = 0;            // number of factor matrices in the plan
  ReplicaInputs compared_inputs_;
  std::optional<ParameterHashes> parameter_hashes_;  // exists if verify_replicas is above 0
};

}  // namespace shampoo

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
  // Returns an error if the communicator of these ranks has failed before.
  virtual Status PriorFailure() const = 0;
  // Exchanges the updates of a bucket. For the first bucket only, the replicas also compare their inputs, and then
  // agree with the ranks of the other shards: if one rank has failed, all ranks return its error.
  virtual Status Share(int64_t bucket, const StepDecision& decision, const StepContext& context,
                       ShardAgreement* shards) = 0;
  // Joins the exchange of a bucket only to report a failure.
  virtual void Report(int64_t bucket, const Status& failure) = 0;
  // Does the same as Report() and, for the first bucket, then joins the agreement with the other shards.
  virtual void ReportWithShards(int64_t bucket, const Status& failure, ShardAgreement* shards) = 0;
  // Makes the next step return an error if an inverse root of another rank has failed too often. Call it after a step.
  virtual void DeferRootFailures() = 0;
  // With gathered blocks, returns the buffer that receives the updates for this rank's shards from a replica.
  virtual char* ArrivedFrom(int64_t bucket, int replica) const = 0;
};

// One replica: nothing is exchanged.
class SingleReplica final : public ReplicaSharing {
 public:
  // arrived: with gathered blocks, the buffer that receives updates from other shard ranks; otherwise nullptr.
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

// Several replicas: each rank sends the updates of its own blocks. The exchange of a bucket is one all-gather, in a
// buffer with the layout of the plan. Every rank makes the same calls.
class ReplicaExchange final : public ReplicaSharing {
 public:
  // optimizer: from Communicator::TakeOptimizerId().
  static Status Create(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer,
                       const HostAllocator& allocator, CpuBackend* backend, std::unique_ptr<ReplicaExchange>* out);

  int64_t buckets() const { return static_cast<int64_t>(segment_bytes_.size()); }
  // Returns the address of the update of a block in the buffer.
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
  std::vector<int64_t> segment_bytes_;  // by bucket
  Allocation buffer_;
  std::vector<SegmentHeader> headers_;  // of the last exchange, by rank
  int64_t factor_count_ = 0;            // factor matrices of the plan
  ReplicaInputs compared_inputs_;
  std::optional<ParameterHashes> parameter_hashes_;  // with verify_replicas
};

}  // namespace shampoo

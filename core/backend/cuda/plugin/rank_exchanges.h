// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/interface.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/device_memory.h"
#include "core/backend/cuda/plugin/exchange_stream.h"
#include "core/backend/cuda/plugin/kernel_tables.h"
#include "core/backend/cuda/plugin/phase_timer.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// The exchanges of a step with other ranks (docs/adr/0024, docs/adr/0025, docs/adr/0028). Every rank makes the same
// sequence of collectives, even after it has rejected the step. The headers of its segments (segment_header.h) then
// report its error to the other ranks. Without other ranks, nothing is exchanged. Exchanges belong to no phase
// (PhaseTimer), because their time includes waiting for other ranks.
//
// All kernels run in the caller's stream, so that the kernels that can reject the step run in a fixed order. With
// several buckets, the collectives that exchange the buckets run in a separate stream. Events order the two streams.
class RankExchanges {
 public:
  // The plan must outlive this object.
  explicit RankExchanges(const PlanView& plan) : plan_(plan) {}

  // Allocates the exchange buffers, and sets the members of `tables` that depend on these buffers.
  Status Allocate(const DeviceMemory::Source& source, Tables* tables);

  // With shard_mode=gather, collects whole blocks at their owners. Call this before the gradients are checked.
  Status Collect(const StepArgs& args, const Tables& tables, const StepPhases& phases);
  // Makes the shard ranks agree on the step. If PlanView::replicas_agree_first is 1, also makes the replicas agree;
  // otherwise, the replicas agree in Receive(). Call this after the gradients have been checked, and before the step
  // writes anything.
  Status Agree(const StepArgs& args, const Tables& tables, const StepPhases& phases) const;
  // Computes the updates of each bucket by calling compute(bucket), and sends and receives these updates.
  template <typename Compute>
  Status ShareBuckets(const StepArgs& args, const Tables& tables, const StepPhases& phases, const Compute& compute) {
    for (int32_t bucket = 0; bucket < bucket_count(); ++bucket) {
      SHAMPOO_RETURN_IF_ERROR(compute(bucket));
      SHAMPOO_RETURN_IF_ERROR(Send(args, tables, bucket, phases));
      // Receive the previous bucket only now: its exchange ran while this bucket was computed.
      if (bucket > 0) SHAMPOO_RETURN_IF_ERROR(Receive(args, tables, bucket - 1, phases));
    }
    return Receive(args, tables, bucket_count() - 1, phases);
  }
  // Makes the caller's stream wait for all exchanges. Call this at the end of each step, even after a failure.
  Status Join(cudaStream_t stream) { return stream_.Join(stream); }

  int32_t bucket_count() const { return plan_.bucket_count; }

 private:
  // Sends the updates of a bucket, which must have been computed, to the ranks that hold the parameters.
  Status Send(const StepArgs& args, const Tables& tables, int32_t bucket, const StepPhases& phases);
  // Makes the caller's stream wait for the updates of a bucket, and enqueues the kernels that apply these updates. Call
  // this for bucket k before calling Send() for bucket k + 2.
  Status Receive(const StepArgs& args, const Tables& tables, int32_t bucket, const StepPhases& phases);
  bool gathers() const { return plan_.gather != nullptr; }
  bool compares_headers_first() const { return plan_.replicas_agree_first != 0; }
  // Returns whether updates are sent to other ranks.
  bool shares() const { return gathers() || plan_.replica_world > 1; }
  ExchangeArgs HeadersOf(const StepArgs& args, int64_t at, int64_t segment_bytes, int64_t number) const;
  ExchangeArgs HeadersOf(const StepArgs& args, int32_t bucket) const;
  Status AgreeWithShards(const StepArgs& args, const Tables& tables, int64_t number) const;
  Status ExchangeSegments(const StepArgs& args, const ExchangeArgs& headers, cudaStream_t stream) const;
  Status ExchangeMessages(const StepArgs& args, const GatherExchange& exchange, cudaStream_t stream) const;
  Status Deliver(const StepArgs& args, const GatherBucket& bucket, cudaStream_t stream) const;

  const PlanView& plan_;
  DeviceMemory buffers_;  // empty if there is only one rank
  ExchangeStream stream_;
};

}  // namespace shampoo::cuda

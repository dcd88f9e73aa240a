// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/replica_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/catch_exceptions.h"
#include "core/comm/agreement.h"
#include "core/comm/received.h"
#include "core/rules/rank_difference.h"

namespace shampoo {

ReplicaExchange::ReplicaExchange(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer)
    : inputs_(inputs),
      rounds_(std::move(comm), optimizer),
      segment_bytes_(inputs.plan.bucket_segment_bytes),
      headers_(static_cast<size_t>(inputs.plan.placement.replica_world)),
      compared_inputs_(inputs.plan) {
  for (const Block& block : inputs.plan.blocks) factor_count_ += block.factor_count();
}

Status ReplicaExchange::Create(const StepInputs& inputs, std::shared_ptr<Communicator> comm, int32_t optimizer,
                               const HostAllocator& allocator, CpuBackend* backend,
                               std::unique_ptr<ReplicaExchange>* out) {
  std::unique_ptr<ReplicaExchange> made(new ReplicaExchange(inputs, std::move(comm), optimizer));
  const int64_t bytes = inputs.plan.ReplicaBufferBytes();
  SHAMPOO_RETURN_IF_ERROR(Allocation::Create(allocator, bytes, "gather buffer", &made->buffer_));
  // The memory is written here, so that steps have no page faults and never send uninitialized bytes.
  std::fill_n(made->buffer_.data(), bytes, char{0});
  if (inputs.plan.groups[0].verify_replicas > 0) made->parameter_hashes_.emplace(inputs.plan, backend);
  *out = std::move(made);
  return {};
}

Status ReplicaExchange::Share(int64_t bucket, const StepDecision& decision, const StepContext& context,
                              ShardAgreement* shards) {
  // If there is no memory for the error of the exchange, CatchExceptions() returns an error, so that this rank still
  // calls AgreeAgain(), for which the ranks of the other shards wait.
  Status shared = CatchExceptions([&] { return ShareUpdates(bucket, decision, context); });
  if (bucket > 0) return shared;
  // An error among the replicas of one shard must also stop the ranks of the other shards before they apply anything.
  shared = shards->AgreeAgain(std::move(shared));
  return decision.makes_step() && shared.ok() ? Status() : EndEarly(std::move(shared));
}

Status ReplicaExchange::ShareUpdates(int64_t bucket, const StepDecision& decision, const StepContext& context) {
  Status status = Gather(bucket, HeaderFor(bucket, decision, context));
  // After a failed exchange the other ranks may already be at the next exchange, in which this rank reports the
  // failure.
  if (!status.ok() && bucket + 1 < buckets()) Report(bucket + 1, status);
  SHAMPOO_RETURN_IF_ERROR(std::move(status));
  SHAMPOO_RETURN_IF_ERROR(CheckFailures(decision.status));
  return bucket > 0 ? Status() : CompareSteps();
}

// Returns the header of a rank that joins an exchange without updates, only to report its status.
SegmentHeader ReplicaExchange::EmptyHeader(int64_t bucket, const Status& own) const {
  SegmentHeader header{};
  header.round = rounds_.HeaderFor(bucket, own, 0);
  header.failing_root = -1;
  return header;
}

SegmentHeader ReplicaExchange::HeaderFor(int64_t bucket, const StepDecision& decision, const StepContext& context) {
  SegmentHeader header{};
  const uint32_t flags = (decision.is_forwarded ? kFailureIsForwarded : 0) | (decision.exports ? kExports : 0);
  header.round = rounds_.HeaderFor(bucket, decision.status, flags);
  header.failing_root = inputs_.history.roots().failing_root();
  if (bucket > 0 || !decision.status.ok()) return header;

  // An export reads the state that the last step wrote.
  const char* const state = decision.exports ? inputs_.state.out() : inputs_.state.in();
  const auto* const counters = reinterpret_cast<const int64_t*>(state);
  compared_inputs_.Set([&](const Param& param) { return context.participants().Contains(param); }, context.excluded(),
                       counters,
                       decision.exports     ? ReplicaInputs::kExports
                       : decision.skip_step ? ReplicaInputs::kSkips
                                            : ReplicaInputs::kSteps);
  header.step = *std::max_element(counters, counters + inputs_.plan.groups.size());
  header.inputs = compared_inputs_.Hash();
  header.hyper_parameters = inputs_.state.hyper_parameters().Hash(true);
  if (ComparesParameters(inputs_.plan.groups[0].verify_replicas, inputs_.history.counts().steps)) {
    parameter_hashes_->Update(inputs_.buffers);
    header.parameters = parameter_hashes_->Hash();
  }
  return header;
}

Status ReplicaExchange::Gather(int64_t bucket, const SegmentHeader& own) {
  Communicator* const comm = rounds_.comm();
  std::memcpy(SegmentOf(bucket, comm->rank()), &own, sizeof own);
  SHAMPOO_RETURN_IF_ERROR(comm->GatherInPlace(buffer_.data(), segment_bytes_[static_cast<size_t>(bucket)]));
  SHAMPOO_RETURN_IF_ERROR(rounds_.Receive(own.round, [&](int rank) { return SegmentOf(bucket, rank); }));
  for (int rank = 0; rank < comm->world(); ++rank) {
    SegmentHeader& header = headers_[static_cast<size_t>(rank)];
    std::memcpy(&header, SegmentOf(bucket, rank), sizeof header);
    SHAMPOO_RETURN_IF_ERROR(
        CheckReceivedOrAbort(comm, {"factor matrix index", rank, header.failing_root}, -1, factor_count_ - 1));
  }
  return {};
}

Status ReplicaExchange::CheckFailures(const Status& own) {
  return rounds_.FindFailure().found() ? FetchErrorOfReplicas(&rounds_, own.message()) : Status();
}

// Ends a step after the first exchange. A rank on which the first exchange failed reports the failure in the second
// exchange, so all other ranks join the second exchange, too (docs/adr/0022-one-round-protocol.md).
Status ReplicaExchange::EndEarly(Status status) {
  constexpr int64_t kNext = 1;
  if (buckets() <= kNext || rounds_.comm()->failed()) return status;
  const bool collective_failed = status.code() == Code::kComm;
  SHAMPOO_RETURN_IF_ERROR(Gather(kNext, EmptyHeader(kNext, collective_failed ? status.Copy() : Status())));
  SHAMPOO_RETURN_IF_ERROR(CheckFailures(status));
  return status;
}

void ReplicaExchange::Report(int64_t bucket, const Status& failure) {
  rounds_.Report([&] {
    // This rank returns its own failure, so the result of the exchange is ignored.
    if (Gather(bucket, EmptyHeader(bucket, failure)).ok()) (void)CheckFailures(failure).ok();
  });
}

void ReplicaExchange::ReportWithShards(int64_t bucket, const Status& failure, ShardAgreement* shards) {
  Report(bucket, failure);
  if (bucket == 0) shards->Report(failure);
}

Status ReplicaExchange::CompareSteps() {
  const auto header_of = [this](int64_t rank) -> const SegmentHeader& { return headers_[static_cast<size_t>(rank)]; };
  const ReplicaDifference found = FindReplicaDifference(static_cast<int64_t>(headers_.size()), header_of);
  switch (found.difference) {
    case RankDifference::kStep:
      return StepsDiffer(static_cast<int>(found.rank), header_of(found.rank).step, headers_[0].step);
    case RankDifference::kScalars:
      return HyperParametersDiffer(static_cast<int>(found.rank));
    case RankDifference::kInputs:
      SHAMPOO_RETURN_IF_ERROR(compared_inputs_.FindDifference(rounds_.comm()));
      return NoDifferenceFound(rounds_.comm(), "the inputs of a step");
    case RankDifference::kParameters:
      // Without verify_replicas, all ranks send 0 instead of a hash. A difference then is an error of the transfer.
      if (!parameter_hashes_) return NoDifferenceFound(rounds_.comm(), "the parameters");
      return parameter_hashes_->FindDifference(rounds_.comm());
    case RankDifference::kNone:
    case RankDifference::kFailed:
    case RankDifference::kPlace:
      break;
  }
  return {};
}

void ReplicaExchange::DeferRootFailures() {
  for (int rank = 0; rank < rounds_.comm()->world(); ++rank) {
    const int64_t root = headers_[static_cast<size_t>(rank)].failing_root;
    if (root >= 0 && rank != inputs_.plan.placement.replica_rank) inputs_.history.DeferRootFailureOfOtherRank(root);
  }
}

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/rank_exchanges.h"

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/comm/segment_header.h"

namespace shampoo::cuda {
namespace {

// One allocation contains these buffers, in this order, where n is PlanView::exchange_sets:
// - n sets of the segments that replicas exchange
// - the segments with which shard ranks agree on a step
// - with shard_mode=gather: n sets of the messages between shard ranks, and one buffer for whole blocks
int64_t ReplicaBytes(const PlanView& plan) { return plan.exchange_sets * plan.replica_set_bytes; }
int64_t AgreementBytes(const PlanView& plan) {
  return plan.shard_world > 1 ? plan.shard_segment_bytes * plan.shard_world : 0;
}

Status Gather(const DeviceGather& ranks, const char* name, char* segments, int64_t segment_bytes, void* stream) {
  const int32_t error = ranks.gather(ranks.user, segments, segment_bytes, stream);
  return error == 0 ? Status() : CommFailed(name, " returned ", error);
}
constexpr char kGatherOfShards[] = "all_gather of the shards";

}  // namespace

Status RankExchanges::Allocate(const DeviceMemory::Source& source, Tables* tables) {
  const int64_t gather_at = ReplicaBytes(plan_) + AgreementBytes(plan_);
  const int64_t bytes = gather_at + (gathers() ? plan_.gather->bytes : 0);
  if (bytes == 0) return {};
  SHAMPOO_RETURN_IF_ERROR(buffers_.Allocate(source, DeviceMemory::Access::kPeers, bytes, "exchange buffers"));
  // With shard_mode=gather, clear the buffers: ranks also send bytes that no rank writes, namely the gaps in messages
  // and the slices of parameters without gradients.
  if (gathers()) {
    SHAMPOO_CUDA_TRY(cudaMemsetAsync(buffers_.data(), 0, static_cast<size_t>(bytes), source.stream));
    tables->gathers = 1;
  }
  if (bucket_count() > 1) SHAMPOO_RETURN_IF_ERROR(stream_.Create());
  tables->exchange_buffers = buffers_.data();
  if (plan_.shard_world > 1) tables->shard_segments = buffers_.data() + ReplicaBytes(plan_);
  return {};
}

Status RankExchanges::Collect(const StepArgs& args, const Tables& tables, const StepPhases& phases) {
  if (!gathers()) return {};
  const auto stream = static_cast<cudaStream_t>(args.stream);
  SHAMPOO_RETURN_IF_ERROR(phases.Leave());
  SHAMPOO_RETURN_IF_ERROR(AgreeWithShards(args, tables, 0));
  SHAMPOO_CUDA_TRY(TakeAgreedGradients(stream, tables));
  const auto unpack = [&](int32_t bucket) -> Status {
    SHAMPOO_RETURN_IF_ERROR(stream_.Wait(stream, bucket));
    SHAMPOO_CUDA_TRY(UnpackWhole(stream, tables, plan_.gather->buckets[bucket].owned));
    return {};
  };
  // Iteration i packs bucket i and unpacks bucket i - 1, so that a bucket is exchanged while the next one is packed.
  for (int32_t i = 0; i < bucket_count(); ++i) {
    const GatherBucket& bucket = plan_.gather->buckets[i];
    SHAMPOO_CUDA_TRY(PackShards(stream, tables, bucket.sent));
    cudaStream_t exchanging = nullptr;
    SHAMPOO_RETURN_IF_ERROR(stream_.Begin(stream, &exchanging));
    SHAMPOO_RETURN_IF_ERROR(ExchangeMessages(args, bucket.collect, exchanging));
    SHAMPOO_RETURN_IF_ERROR(stream_.End(i));
    if (i > 0) SHAMPOO_RETURN_IF_ERROR(unpack(i - 1));
  }
  return unpack(bucket_count() - 1);
}

Status RankExchanges::Agree(const StepArgs& args, const Tables& tables, const StepPhases& phases) const {
  SHAMPOO_RETURN_IF_ERROR(phases.Leave());
  const int64_t number = gathers() ? 1 : 0;
  SHAMPOO_RETURN_IF_ERROR(AgreeWithShards(args, tables, number));
  if (!compares_headers_first()) return {};
  const ExchangeArgs headers = HeadersOf(args, 0, kSegmentHeaderBytes, 0);
  const auto stream = static_cast<cudaStream_t>(args.stream);
  SHAMPOO_CUDA_TRY(WriteHeader(stream, tables, headers));
  SHAMPOO_RETURN_IF_ERROR(ExchangeSegments(args, headers, stream));
  SHAMPOO_CUDA_TRY(CompareHeaders(stream, tables, headers));
  return AgreeWithShards(args, tables, number + 1);
}

Status RankExchanges::Send(const StepArgs& args, const Tables& tables, int32_t bucket, const StepPhases& phases) {
  const auto stream = static_cast<cudaStream_t>(args.stream);
  if (!shares()) return {};
  SHAMPOO_RETURN_IF_ERROR(phases.Leave());
  const bool has_replicas = plan_.replica_world > 1;
  const ExchangeArgs headers = has_replicas ? HeadersOf(args, bucket) : ExchangeArgs{};
  if (has_replicas) SHAMPOO_CUDA_TRY(WriteHeader(stream, tables, headers));
  if (gathers()) SHAMPOO_CUDA_TRY(PackUpdates(stream, tables, plan_.gather->buckets[bucket].owned));
  cudaStream_t exchanging = nullptr;
  SHAMPOO_RETURN_IF_ERROR(stream_.Begin(stream, &exchanging));
  if (gathers()) SHAMPOO_RETURN_IF_ERROR(Deliver(args, plan_.gather->buckets[bucket], exchanging));
  if (has_replicas) SHAMPOO_RETURN_IF_ERROR(ExchangeSegments(args, headers, exchanging));
  return stream_.End(bucket);
}

Status RankExchanges::Receive(const StepArgs& args, const Tables& tables, int32_t bucket, const StepPhases& phases) {
  const auto stream = static_cast<cudaStream_t>(args.stream);
  if (!shares()) return {};
  SHAMPOO_RETURN_IF_ERROR(phases.Leave());
  SHAMPOO_RETURN_IF_ERROR(stream_.Wait(stream, bucket));
  if (plan_.replica_world > 1) {
    SHAMPOO_CUDA_TRY(CompareHeaders(stream, tables, HeadersOf(args, bucket)));
    // CompareHeaders may have rejected the step. All shard ranks must know this before one of them applies an update.
    if (!compares_headers_first()) SHAMPOO_RETURN_IF_ERROR(AgreeWithShards(args, tables, 1));
  }
  SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kElementwise));
  if (gathers()) {
    SHAMPOO_CUDA_TRY(ApplySlices(stream, tables, plan_.gather->buckets[bucket].held));
  } else {
    SHAMPOO_CUDA_TRY(ApplyExchanged(stream, tables, bucket));
  }
  return {};
}

// at, segment_bytes: as in ExchangeArgs. number: the index of this exchange among the exchanges of replicas in this
// step.
ExchangeArgs RankExchanges::HeadersOf(const StepArgs& args, int64_t at, int64_t segment_bytes, int64_t number) const {
  return {at, segment_bytes, args.inputs_hash, args.scalars_hash, args.place + number};
}

ExchangeArgs RankExchanges::HeadersOf(const StepArgs& args, int32_t bucket) const {
  const int64_t number = compares_headers_first() ? 1 + bucket : 0;
  return HeadersOf(args, bucket % plan_.exchange_sets * plan_.replica_set_bytes, plan_.bucket_segment_bytes[bucket],
                   number);
}

Status RankExchanges::ExchangeSegments(const StepArgs& args, const ExchangeArgs& headers, cudaStream_t stream) const {
  return Gather(args.gather, "all_gather", buffers_.data() + headers.at, headers.segment_bytes, stream);
}

Status RankExchanges::Deliver(const StepArgs& args, const GatherBucket& bucket, cudaStream_t stream) const {
  SHAMPOO_RETURN_IF_ERROR(ExchangeMessages(args, bucket.deliver, stream));
  for (int64_t i = 0; i < bucket.copy_count; ++i) {
    const GatherCopy& copy = bucket.copies[i];
    SHAMPOO_CUDA_TRY(cudaMemcpyAsync(buffers_.data() + copy.to, buffers_.data() + copy.from,
                                     static_cast<size_t>(copy.bytes), cudaMemcpyDeviceToDevice, stream));
  }
  return {};
}

// number: the index of this agreement among the agreements of shard ranks in this step.
Status RankExchanges::AgreeWithShards(const StepArgs& args, const Tables& tables, int64_t number) const {
  if (plan_.shard_world == 1) return {};
  const auto stream = static_cast<cudaStream_t>(args.stream);
  const int64_t place = args.shard_place + number;
  SHAMPOO_CUDA_TRY(WriteShardSegment(stream, tables, args.scalars_hash, place));
  SHAMPOO_RETURN_IF_ERROR(
      Gather(args.shard_gather, kGatherOfShards, tables.shard_segments, tables.shard_segment_bytes, args.stream));
  SHAMPOO_CUDA_TRY(CompareShardSegments(stream, tables, place));
  return {};
}

Status RankExchanges::ExchangeMessages(const StepArgs& args, const GatherExchange& exchange,
                                       cudaStream_t stream) const {
  char* const buffers = buffers_.data();
  if (exchange.segment > 0) {
    return Gather(args.shard_gather, kGatherOfShards, buffers + exchange.recv_at, exchange.segment, stream);
  }
  const DeviceAllToAll& shards = args.shard_all_to_all;
  const int32_t error = shards.exchange(shards.user, buffers + exchange.send_at, exchange.send,
                                        buffers + exchange.recv_at, exchange.recv, stream);
  return error == 0 ? Status() : CommFailed("all_to_all of the shards returned ", error);
}

}  // namespace shampoo::cuda

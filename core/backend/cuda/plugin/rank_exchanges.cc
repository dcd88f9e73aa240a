// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/rank_exchanges.h"

#include <algorithm>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/comm/segment_header.h"

namespace shampoo::cuda {
namespace {

// The buffers are one allocation: the segments of replicas, those of the agreement of shards, and with shard_mode
// gather the messages between shards and the whole blocks.
int64_t ReplicaBytes(const PlanView& plan) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < plan.bucket_count; ++i) bytes = std::max(bytes, plan.bucket_segment_bytes[i]);
  return bytes * plan.replica_world;
}
int64_t AgreementBytes(const PlanView& plan) {
  return plan.shard_world > 1 ? plan.shard_segment_bytes * plan.shard_world : 0;
}

}  // namespace

Status RankExchanges::Allocate(const DeviceMemory::Source& source, Tables* tables) {
  const int64_t gather_at = ReplicaBytes(plan_) + AgreementBytes(plan_);
  const int64_t bytes = gather_at + (gathers() ? plan_.gather->bytes : 0);
  if (bytes == 0) return {};
  SHAMPOO_RETURN_IF_ERROR(buffers_.Allocate(source, DeviceMemory::Access::kPeers, bytes, "exchange buffers"));
  // Messages have gaps, and those of a parameter without a gradient are not written.
  if (gathers()) {
    SHAMPOO_CUDA_TRY(cudaMemsetAsync(buffers_.data(), 0, static_cast<size_t>(bytes), source.stream));
    tables->gathers = 1;
  }
  tables->gathered = buffers_.data();
  if (plan_.shard_world > 1) tables->shard_segments = buffers_.data() + ReplicaBytes(plan_);
  return {};
}

int32_t RankExchanges::bucket_count() const {
  return std::max(gathers() ? plan_.gather->bucket_count : plan_.bucket_count, 1);
}

Status RankExchanges::Collect(const StepArgs& args, const Tables& tables, const StepPhases& phases) const {
  if (!gathers()) return {};
  const auto stream = static_cast<cudaStream_t>(args.stream);
  SHAMPOO_RETURN_IF_ERROR(phases.Leave());
  SHAMPOO_RETURN_IF_ERROR(AgreeWithShards(args, tables, 0));
  SHAMPOO_CUDA_TRY(TakeAgreedGradients(stream, tables));
  for (int32_t i = 0; i < plan_.gather->bucket_count; ++i) {
    const GatherBucket& bucket = plan_.gather->buckets[i];
    SHAMPOO_CUDA_TRY(PackShards(stream, tables, bucket.sent));
    SHAMPOO_RETURN_IF_ERROR(ExchangeMessages(args, bucket.collect));
    SHAMPOO_CUDA_TRY(UnpackWhole(stream, tables, bucket.owned));
  }
  return {};
}

Status RankExchanges::Agree(const StepArgs& args, const Tables& tables, const StepPhases& phases) const {
  SHAMPOO_RETURN_IF_ERROR(phases.Leave());
  const int64_t number = gathers() ? 1 : 0;
  SHAMPOO_RETURN_IF_ERROR(AgreeWithShards(args, tables, number));
  if (!compares_headers_first()) return {};
  SHAMPOO_RETURN_IF_ERROR(ExchangeWithReplicas(args, tables, kSegmentHeaderBytes, 0));
  return AgreeWithShards(args, tables, number + 1);
}

Status RankExchanges::Share(const StepArgs& args, const Tables& tables, int32_t bucket,
                            const StepPhases& phases) const {
  const auto stream = static_cast<cudaStream_t>(args.stream);
  if (!gathers() && plan_.replica_world == 1) return {};
  SHAMPOO_RETURN_IF_ERROR(phases.Leave());
  if (gathers()) {
    const GatherBucket& gathered = plan_.gather->buckets[bucket];
    SHAMPOO_CUDA_TRY(PackUpdates(stream, tables, gathered.owned));
    SHAMPOO_RETURN_IF_ERROR(ExchangeMessages(args, gathered.deliver));
    for (int64_t i = 0; i < gathered.copy_count; ++i) {
      const GatherCopy& copy = gathered.copies[i];
      SHAMPOO_CUDA_TRY(cudaMemcpyAsync(tables.gathered + copy.to, tables.gathered + copy.from,
                                       static_cast<size_t>(copy.bytes), cudaMemcpyDeviceToDevice, stream));
    }
    if (plan_.replica_world > 1) {
      SHAMPOO_RETURN_IF_ERROR(ExchangeWithReplicas(args, tables, plan_.bucket_segment_bytes[bucket], 1 + bucket));
    }
    SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kElementwise));
    SHAMPOO_CUDA_TRY(ApplySlices(stream, tables, gathered.held));
    return {};
  }
  const int64_t number = compares_headers_first() ? 1 + bucket : 0;
  SHAMPOO_RETURN_IF_ERROR(ExchangeWithReplicas(args, tables, plan_.bucket_segment_bytes[bucket], number));
  // The other shards must know what the first exchange between the copies of this shard has shown.
  if (number == 0) SHAMPOO_RETURN_IF_ERROR(AgreeWithShards(args, tables, 1));
  SHAMPOO_RETURN_IF_ERROR(phases.Enter(StepPhase::kElementwise));
  SHAMPOO_CUDA_TRY(ApplyExchanged(stream, tables, bucket));
  return {};
}

// number: of the exchange between replicas in this step.
Status RankExchanges::ExchangeWithReplicas(const StepArgs& args, const Tables& tables, int64_t segment_bytes,
                                           int64_t number) const {
  const auto stream = static_cast<cudaStream_t>(args.stream);
  const ExchangeArgs exchange{segment_bytes, args.inputs_hash, args.scalars_hash, args.place + number};
  SHAMPOO_CUDA_TRY(WriteHeader(stream, tables, exchange));
  const int32_t error = args.gather.gather(args.gather.user, tables.gathered, segment_bytes, args.stream);
  if (error != 0) return CommFailed("all_gather returned ", error);
  SHAMPOO_CUDA_TRY(CompareHeaders(stream, tables, exchange));
  return {};
}

// number: of the agreement in this step.
Status RankExchanges::AgreeWithShards(const StepArgs& args, const Tables& tables, int64_t number) const {
  if (plan_.shard_world == 1) return {};
  const auto stream = static_cast<cudaStream_t>(args.stream);
  const int64_t place = args.shard_place + number;
  SHAMPOO_CUDA_TRY(WriteShardSegment(stream, tables, args.scalars_hash, place));
  const DeviceGather& shards = args.shard_gather;
  const int32_t error = shards.gather(shards.user, tables.shard_segments, tables.shard_segment_bytes, args.stream);
  if (error != 0) return CommFailed("all_gather of the shards returned ", error);
  SHAMPOO_CUDA_TRY(CompareShardSegments(stream, tables, place));
  return {};
}

Status RankExchanges::ExchangeMessages(const StepArgs& args, const GatherExchange& exchange) const {
  char* const buffers = buffers_.data();
  if (exchange.segment > 0) {
    const DeviceGather& shards = args.shard_gather;
    const int32_t error = shards.gather(shards.user, buffers + exchange.recv_at, exchange.segment, args.stream);
    return error == 0 ? Status() : CommFailed("all_gather of the shards returned ", error);
  }
  const DeviceAllToAll& shards = args.shard_all_to_all;
  const int32_t error = shards.exchange(shards.user, buffers + exchange.send_at, exchange.send,
                                        buffers + exchange.recv_at, exchange.recv, args.stream);
  return error == 0 ? Status() : CommFailed("all_to_all of the shards returned ", error);
}

}  // namespace shampoo::cuda

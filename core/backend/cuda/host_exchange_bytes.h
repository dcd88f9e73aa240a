// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "core/backend/cuda/interface.h"
#include "core/base/round_up.h"

// Layout of the pinned memory through which a step exchanges data over communicators that take host memory. The
// exchanges of a step use the same memory, one after the other. In an all-gather, the segments of all ranks follow each
// other from offset 0. In an all-to-all, the data to send starts at offset 0, and the received data follows.
namespace shampoo::cuda {

// Returns the offset of the data that an all-to-all receives.
inline int64_t HostReceiveOffset(int64_t sent_bytes) {
  constexpr int64_t kAlignment = 256;
  return RoundUp(sent_bytes, kAlignment);
}

// Returns the bytes of pinned memory that one exchange between shard ranks needs.
inline int64_t HostBytesOf(const GatherExchange& exchange, int32_t shard_world) {
  if (exchange.segment > 0) return exchange.segment * shard_world;
  const auto sum = [shard_world](const size_t* bytes) {
    return static_cast<int64_t>(std::accumulate(bytes, bytes + shard_world, size_t{0}));
  };
  return HostReceiveOffset(sum(exchange.send)) + sum(exchange.recv);
}

// Returns the bytes of pinned memory that the largest exchange between shard ranks in a step needs.
inline int64_t HostBytesOfShards(const PlanView& plan) {
  int64_t bytes = plan.shard_segment_bytes * plan.shard_world;  // for the exchange in which shard ranks agree on a step
  for (int32_t i = 0; plan.gather != nullptr && i < plan.bucket_count; ++i) {
    const GatherBucket& bucket = plan.gather->buckets[i];
    bytes =
        std::max({bytes, HostBytesOf(bucket.collect, plan.shard_world), HostBytesOf(bucket.deliver, plan.shard_world)});
  }
  return bytes;
}

}  // namespace shampoo::cuda

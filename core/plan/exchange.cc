// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/exchange.h"

#include <algorithm>
#include <limits>

namespace shampoo {

Dtype ExchangeDtype(const Settings& optimizer, const Block& block) {
  return optimizer.communication_dtype.value_or(block.computation);
}

std::vector<int64_t> PlanExchange(const Ownership& ownership, int world, int64_t bucket_bytes,
                                  std::vector<Block>* blocks) {
  std::vector<int64_t> segment_bytes;
  if (world == 1) return segment_bytes;
  const int64_t limit = bucket_bytes == 0 ? std::numeric_limits<int64_t>::max() : bucket_bytes / world;
  struct Filling {
    size_t bucket = 0;
    int64_t end = kSegmentHeaderBytes;
  };
  std::vector<Filling> filling(static_cast<size_t>(world));
  segment_bytes.push_back(kSegmentHeaderBytes);
  for (size_t i = 0; i < blocks->size(); ++i) {
    Block& block = (*blocks)[i];
    Filling& of_rank = filling[static_cast<size_t>(block.owner)];
    const int64_t bytes = ownership.aligned_bytes[i];
    if (of_rank.end > kSegmentHeaderBytes && bytes > limit - of_rank.end) {
      ++of_rank.bucket;
      of_rank.end = kSegmentHeaderBytes;
      if (of_rank.bucket == segment_bytes.size()) segment_bytes.push_back(kSegmentHeaderBytes);
    }
    block.bucket = static_cast<int>(of_rank.bucket);
    block.exchange_offset = of_rank.end;
    of_rank.end += bytes;
    segment_bytes[of_rank.bucket] = std::max(segment_bytes[of_rank.bucket], of_rank.end);
  }
  return segment_bytes;
}

}  // namespace shampoo

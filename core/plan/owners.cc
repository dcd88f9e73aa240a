// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/owners.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "core/base/round_up.h"

namespace shampoo {

Ownership AssignOwners(std::span<const int64_t> bytes, int world, std::span<const int64_t> loads) {
  Ownership result;
  result.aligned_bytes.reserve(bytes.size());
  for (const int64_t size : bytes) {
    result.aligned_bytes.push_back(RoundUp(size, kSegmentAlignment));
  }

  const std::span<const int64_t> load_of = loads.empty() ? result.aligned_bytes : loads;
  std::vector<size_t> largest_first(bytes.size());
  std::iota(largest_first.begin(), largest_first.end(), size_t{0});
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [&](size_t a, size_t b) { return load_of[a] > load_of[b]; });

  // Ordered by load, then by rank: the top is the least loaded rank, the lowest of several.
  using Load = std::pair<int64_t, int>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> queue;
  for (int rank = 0; rank < world; ++rank) queue.emplace(0, rank);
  result.owner.resize(bytes.size());
  for (const size_t block : largest_first) {
    const auto [load, rank] = queue.top();
    queue.pop();
    result.owner[block] = rank;
    queue.emplace(load + load_of[block], rank);
  }

  result.bytes_per_rank.assign(static_cast<size_t>(world), 0);
  result.offset_in_segment.reserve(bytes.size());
  for (size_t block = 0; block < bytes.size(); ++block) {
    int64_t& filled = result.bytes_per_rank[static_cast<size_t>(result.owner[block])];
    result.offset_in_segment.push_back(filled);
    filled += result.aligned_bytes[block];
  }
  result.segment_bytes = *std::max_element(result.bytes_per_rank.begin(), result.bytes_per_rank.end());
  return result;
}

}  // namespace shampoo

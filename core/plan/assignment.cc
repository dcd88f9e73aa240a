// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/assignment.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "core/base/at.h"
#include "core/base/round_up.h"

namespace shampoo {
namespace {

double RootCost(const Block& block) {
  double cost = 0;
  for (int k = 0; k < block.factor_count(); ++k) {
    if (!block.has_factor(k)) continue;
    const auto d = static_cast<double>(block.shape[k]);
    cost += d * d * d;
  }
  return cost;
}

}  // namespace

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

  // The queue is ordered by load, then by rank. Its top is the least-loaded rank. If several ranks have the least load,
  // the top is the lowest of them.
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
    int64_t& filled = At(result.bytes_per_rank, result.owner[block]);
    result.offset_in_segment.push_back(filled);
    filled += result.aligned_bytes[block];
  }
  result.segment_bytes = *std::max_element(result.bytes_per_rank.begin(), result.bytes_per_rank.end());
  return result;
}

void AssignPhases(const std::vector<Settings>& groups, std::vector<Block>* blocks) {
  for (size_t g = 0; g < groups.size(); ++g) {
    if (!groups[g].root_spread) continue;
    std::vector<Block*> members;
    for (Block& block : *blocks) {
      if (block.group == static_cast<int>(g)) members.push_back(&block);
    }
    std::stable_sort(members.begin(), members.end(),
                     [](const Block* a, const Block* b) { return RootCost(*a) > RootCost(*b); });
    const auto phases = std::min<size_t>(static_cast<size_t>(groups[g].precondition_frequency), members.size());
    std::vector<double> load(phases, 0.0);
    for (Block* block : members) {
      const auto least = std::min_element(load.begin(), load.end());
      block->phase = least - load.begin();
      *least += RootCost(*block);
    }
  }
}

Dtype ExchangeDtype(const Settings& optimizer, const Block& block) {
  return optimizer.communication_dtype.value_or(block.computation);
}

std::vector<int64_t> PlanExchange(const Ownership& ownership, int world, int64_t bucket_bytes,
                                  std::vector<Block>* blocks) {
  std::vector<int64_t> segment_bytes;
  if (world == 1) return segment_bytes;
  const int64_t limit = bucket_bytes == 0 ? std::numeric_limits<int64_t>::max() : bucket_bytes / world;
  // Where the next block of a rank is placed: the bucket, and the offset in the rank's segment of this bucket.
  struct Position {
    size_t bucket = 0;
    int64_t end = kSegmentHeaderBytes;
  };
  std::vector<Position> position_of_rank(static_cast<size_t>(world));
  segment_bytes.push_back(kSegmentHeaderBytes);
  for (size_t i = 0; i < blocks->size(); ++i) {
    Block& block = (*blocks)[i];
    Position& position = At(position_of_rank, block.owner);
    const int64_t bytes = ownership.aligned_bytes[i];
    if (position.end > kSegmentHeaderBytes && bytes > limit - position.end) {
      ++position.bucket;
      position.end = kSegmentHeaderBytes;
      if (position.bucket == segment_bytes.size()) segment_bytes.push_back(kSegmentHeaderBytes);
    }
    block.bucket = static_cast<int>(position.bucket);
    block.exchange_offset = position.end;
    position.end += bytes;
    segment_bytes[position.bucket] = std::max(segment_bytes[position.bucket], position.end);
  }
  return segment_bytes;
}

}  // namespace shampoo

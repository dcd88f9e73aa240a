// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/config/settings.h"
#include "core/plan/block.h"

// Selects for each block the rank that updates it, the steps that compute its roots, and its place in the exchange
// buffers. The results of the functions depend only on their arguments, so all ranks get the same results.
namespace shampoo {

// The alignment of a block's update in an exchange, in bytes.
inline constexpr int64_t kSegmentAlignment = 64;

// Which rank updates which block, and how many bytes of updates each rank sends. Unless its comment says "by rank", a
// vector has one entry for each block, in plan order.
struct Ownership {
  std::vector<int> owner;
  std::vector<int64_t> aligned_bytes;      // the size of the update, rounded up to a multiple of kSegmentAlignment
  std::vector<int64_t> offset_in_segment;  // in bytes; here, a segment is all updates of a rank, in plan order
  std::vector<int64_t> bytes_per_rank;     // by rank: the sum of aligned_bytes of the rank's blocks
  int64_t segment_bytes;                   // the largest of bytes_per_rank
};

// Assigns blocks to ranks greedily: takes the block with the largest load first, and assigns each block to the
// least-loaded rank. Of several blocks of equal load, the first in plan order is taken. Of several least-loaded ranks,
// the lowest is chosen.
//   bytes  the size of each block's update, >= 0; the sum of Ownership::aligned_bytes must fit int64_t
//   world  the number of ranks, >= 1
//   loads  the load of each block; if empty, the load of a block is its Ownership::aligned_bytes
Ownership AssignOwners(std::span<const int64_t> bytes, int world, std::span<const int64_t> loads = {});

// Sets the phase of every block whose group has root_spread=true. The phase determines by how many steps the refresh of
// the block follows the refresh of its group (SpreadOffset in core/rules/schedule.h). Phases are assigned greedily: the
// block whose roots need the most work comes first, and each block gets the phase with the least work so far. The work
// for roots is then about the same in each step. The phases do not depend on the owners.
void AssignPhases(const std::vector<Settings>& groups, std::vector<Block>* blocks);

// The size of the header at the start of every rank's segment of every bucket (core/comm/segment_header.h).
inline constexpr int64_t kSegmentHeaderBytes = 64;

// Returns the dtype in which a block's update is exchanged.
Dtype ExchangeDtype(const Settings& optimizer, const Block& block);

// Divides the blocks of each rank, in plan order, among buckets that are exchanged one after another. Sets each block's
// bucket and the offset of the block in its owner's segment. A bucket consists of one segment of each rank.
//   bucket_bytes  the largest size of a bucket, or 0 for a single bucket of any size. A bucket exceeds bucket_bytes
//                 only if a segment with a single block is longer than bucket_bytes / world.
// Returns, for each bucket, the size of a segment in bytes, including header and padding. The segments of all ranks
// have this size. If world is 1, nothing is exchanged and the result is empty.
std::vector<int64_t> PlanExchange(const Ownership& ownership, int world, int64_t bucket_bytes,
                                  std::vector<Block>* blocks);

}  // namespace shampoo

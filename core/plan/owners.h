// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace shampoo {

// Every block's part of an exchange starts at a multiple of this many bytes.
inline constexpr int64_t kSegmentAlignment = 64;

// Which rank updates which block, and where the block lies in that rank's segment of the exchange. The first three have
// one entry per block, in plan order.
struct Ownership {
  std::vector<int> owner;
  std::vector<int64_t> aligned_bytes;      // the block's bytes rounded up to kSegmentAlignment
  std::vector<int64_t> offset_in_segment;  // in bytes; within a segment blocks lie in plan order
  std::vector<int64_t> bytes_per_rank;     // sum of aligned_bytes per rank, `world` entries; 0: owns nothing
  int64_t segment_bytes;                   // every rank's segment is padded to this, the largest of bytes_per_rank
};

// Spreads blocks over ranks, largest first (equal ones in plan order), each to the rank with the smallest load so far
// (ties: the lowest rank). The same on every rank, as it depends on its arguments alone.
// bytes: size of each block's update, >= 0; their rounded sum must fit int64_t. world >= 1.
// loads: what a block counts as; empty: its rounded bytes.
Ownership AssignOwners(std::span<const int64_t> bytes, int world, std::span<const int64_t> loads = {});

}  // namespace shampoo

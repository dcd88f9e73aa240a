// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "core/config/settings.h"
#include "core/plan/block.h"

namespace shampoo {

inline constexpr int64_t kStateAlignment = 64;   // of each entry: a cache line, and the widest vector register
inline constexpr int64_t kArenaAlignment = 256;  // of an arena made here; what its size is rounded up to

// Largest dim of a block: the eigensolver's workspace, 2 n^2 elements, must be counted in LAPACK's 32-bit integers.
inline constexpr int64_t kLargestBlockDim = 32750;
// Most elements of a block: BLAS counts in 32 bits, too.
inline constexpr int64_t kLargestBlock = (int64_t{1} << 31) - 1;
// More blocks than this are a mistake in max_preconditioner_dim, not a model.
inline constexpr int64_t kMostBlocks = int64_t{1} << 20;

// Computation and root dtypes of the block, and the dtypes and sizes of its states: which ones exist follows from the
// settings. Offsets count from 0; state_bytes is their sum.
void LayOutBlock(const Settings& settings, Dtype param_dtype, Block* block);

// Moves a laid-out block's states to start at `offset` of the arena.
void PlaceBlock(int64_t offset, Block* block);

// Bytes at the arena's start for the groups' step counters, one int64 each.
int64_t CounterBytes(int64_t groups);

}  // namespace shampoo

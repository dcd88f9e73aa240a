// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/config/settings.h"
#include "core/plan/block.h"

// The layout of a rank's arena: the step counters of the groups, then the states of each block that the rank owns.
namespace shampoo {

// The alignment of each state in the arena, in bytes: the size of a cache line and of the widest vector register.
inline constexpr int64_t kStateAlignment = 64;
// The alignment of an arena that the library allocates, in bytes. The size of every arena is a multiple of this number.
inline constexpr int64_t kArenaAlignment = 256;

// Returns the number of bytes at the start of the arena that hold the step counters: one int64 for each group, and
// padding.
int64_t CounterBytes(int64_t groups);

// Sets the block's fields `computation`, `root_dtype`, `root` and `moment_of_direction`. For each state that the block
// has, sets the dtype, the form and the offset (StateSlot). The offsets count from the first state of the block. Sets
// `state_bytes` to the size of all states together, and `state_offset` to 0.
void LayOutBlock(const Settings& settings, Dtype param_dtype, Block* block);

// Adds `offset` to the offsets that LayOutBlock has set, so that the states of the block start at `offset` in the
// arena.
void PlaceBlock(int64_t offset, Block* block);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/blas/scratch.h"
#include "core/config/settings.h"
#include "core/plan/block.h"

namespace shampoo {

// Workspace of one slot (one worker's place): offsets in bytes of what the step of a block needs besides its states.
struct SlotLayout {
  int64_t gradient = 0;       // G where the caller's cannot be used as it is
  int64_t filtered = 0;       // H
  int64_t direction[2] = {};  // P, from one contraction to the next
  int64_t factor = 0;         // F_k unrounded, where it is kept in another dtype
  int64_t inverse = 0;        // all X_k unrounded, where they are kept in another dtype
  int64_t root = 0;           // a RootWorkspace of the root dtype
  int64_t root_ints = 0;
  int64_t slice_sums = 0;  // float64, of the check phase
  int64_t bytes = 0;
  int64_t scratch_bytes = 0;  // of BLAS

  // Shared by all slots: a RootWorkspace of float64, where some root dtype is narrower.
  int64_t recovery_elements = 0;
  int64_t recovery_bytes = 0;  // with its integers

  // Large enough for each of the blocks.
  static SlotLayout For(const std::vector<const Block*>& blocks, const std::vector<Settings>& groups);
};

// Bytes that the CPU backend allocates for these blocks: a Plan::WorkspaceBytes.
int64_t CpuWorkspaceBytes(const std::vector<const Block*>& blocks, const std::vector<Settings>& groups, int threads);

// How many workers so many blocks can keep busy.
int64_t SlotsFor(int64_t blocks, int threads);

}  // namespace shampoo

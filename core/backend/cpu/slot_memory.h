// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/blas/scratch.h"
#include "core/config/settings.h"
#include "core/plan/block.h"
#include "core/plan/plan.h"

namespace shampoo {

// Roots of a block from this order of its second largest factor on are computed side by side where threads are idle.
inline constexpr int64_t kRootsSideBySide = 256;

// The workspace of the CPU backend, in bytes: some slots that whole blocks are worked on in, some that inverse roots
// are, and what all share.
struct WorkspaceLayout {
  // What the step of a block needs besides its states: offsets within an item's slot.
  int64_t gradient = 0;       // G where the caller's cannot be used as it is
  int64_t filtered = 0;       // H
  int64_t direction[2] = {};  // P, from one contraction to the next
  int64_t pairs = 0;          // F_k and X_k unrounded, where they cannot be used as they are kept
  int64_t item_bytes = 0;

  // Offsets within a root's slot.
  int64_t root = 0;  // a RootWorkspace of the root dtype
  int64_t root_ints = 0;
  int64_t root_bytes = 0;

  blas::ScratchExtent scratch;  // of BLAS, for each thread

  // Shared by all: a RootWorkspace of float64, where some root dtype is narrower.
  int64_t recovery_elements = 0;
  int64_t recovery_bytes = 0;    // with its integers
  int64_t inspection_bytes = 0;  // shared, too: sums in float64 for the check phase

  int item_slots = 0;  // threads that can be at a block of their own
  int root_slots = 0;  // threads that can be at a root
  int slots = 0;       // threads that can be at a tile of either

  // Large enough for each of the blocks; largest_dim: of any whose gradient may have to be inspected.
  static WorkspaceLayout For(const std::vector<const Block*>& blocks, int64_t largest_dim,
                             const std::vector<Settings>& groups, int threads);

  int64_t ItemAt(int slot) const { return slot * item_bytes; }
  int64_t RootAt(int slot) const { return item_slots * item_bytes + slot * root_bytes; }
  int64_t RecoveryAt() const { return RootAt(root_slots); }
  int64_t InspectionAt() const { return RecoveryAt() + recovery_bytes; }
  int64_t bytes() const { return InspectionAt() + inspection_bytes; }
};

// Bytes that the CPU backend allocates for these blocks: a Plan::WorkspaceBytes.
int64_t CpuWorkspaceBytes(const PlanData& plan, const std::vector<const Block*>& blocks);

// Of any block of the plan, those of other ranks among them.
int64_t LargestDim(const PlanData& plan);

}  // namespace shampoo

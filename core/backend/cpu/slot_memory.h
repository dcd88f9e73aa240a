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

// If the second largest factor matrix of a block has at least this size, idle threads help to compute the roots of
// the block in parallel.
inline constexpr int64_t kRootsSideBySide = 256;

// Layout of the CPU backend's workspace, in bytes: slots for the steps of whole blocks, slots for inverse roots, and
// memory that all threads share.
struct WorkspaceLayout {
  // Memory for the step of one block: offsets within an item's slot.
  int64_t gradient = 0;       // G, if the gradient cannot be used in the caller's buffer
  int64_t filtered = 0;       // H
  int64_t direction[2] = {};  // P, alternating from one contraction to the next
  // F_k and X_k unrounded, if they cannot be used in the arena. With a method in eigenbases: all F_k. For a matrix that
  // is orthogonalized: OrthogonalizeMemory::memory.
  int64_t pairs = 0;
  int64_t vectors = 0;    // for methods in eigenbases: an eigenvalue in float64 for each row of each F_k
  int64_t spare = 0;      // for methods in eigenbases: another tensor
  int64_t norm_rows = 0;  // with update_floor_rows: a NormControlRow for each row
  int64_t item_bytes = 0;

  // Offsets within a root's slot.
  int64_t root = 0;  // a RootWorkspace of the root dtype
  int64_t root_ints = 0;
  int64_t root_bytes = 0;

  blas::ScratchExtent scratch;  // scratch memory of the BLAS, for each thread

  // Shared by all threads: a RootWorkspace of float64, if some root dtype is narrower.
  int64_t recovery_elements = 0;
  int64_t recovery_bytes = 0;  // the elements and the integers of this workspace
  // Shared by all threads: sums in float64 for the exact check of a gradient.
  int64_t inspection_bytes = 0;

  int item_slots = 0;  // threads that can step a block at the same time
  int root_slots = 0;  // threads that can compute a root at the same time
  int slots = 0;       // threads that can work on a tile of a block or a root at the same time

  // Returns a layout that is large enough for each of the blocks. largest_dim: the largest dim of any block whose
  // gradient may be inspected.
  static WorkspaceLayout For(const std::vector<const Block*>& blocks, int64_t largest_dim,
                             const std::vector<Settings>& groups, int threads);

  int64_t ItemAt(int slot) const { return slot * item_bytes; }
  int64_t RootAt(int slot) const { return item_slots * item_bytes + slot * root_bytes; }
  int64_t RecoveryAt() const { return RootAt(root_slots); }
  int64_t InspectionAt() const { return RecoveryAt() + recovery_bytes; }
  int64_t bytes() const { return InspectionAt() + inspection_bytes; }
};

// Returns the bytes that the CPU backend allocates for these blocks. It is a Plan::WorkspaceBytes function.
int64_t CpuWorkspaceBytes(const PlanData& plan, size_t rank, const std::vector<const Block*>& blocks);

// Returns the largest dim of all blocks of the plan, including those of other ranks.
int64_t LargestDim(const PlanData& plan);

}  // namespace shampoo

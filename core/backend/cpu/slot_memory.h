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

// Layout of the CPU backend's workspace. All offsets are in bytes. The workspace has slots in which threads make the
// steps of blocks, slots in which threads compute inverse roots, and memory that all threads share.
struct WorkspaceLayout {
  // Offsets within a slot for the step of one block. item_bytes is the size of the slot.
  int64_t gradient = 0;       // G, if the gradient cannot be used in the caller's buffer
  int64_t filtered = 0;       // H
  int64_t direction[2] = {};  // P; consecutive contractions write to the two buffers alternately
  // Copies of F_k and X_k in the computation dtype, unless the arena stores them so that they can be used in place. For
  // methods that work in eigenbases: copies of all F_k. For a direction that is orthogonalized:
  // OrthogonalizeMemory::memory.
  int64_t pairs = 0;
  int64_t vectors = 0;    // for methods that work in eigenbases: a float64 eigenvalue for each row of each F_k
  int64_t spare = 0;      // for methods that work in eigenbases: memory for one more tensor
  int64_t norm_rows = 0;  // with update_floor_rows: a NormControlRow for each of the Block::matrix_rows rows
  int64_t item_bytes = 0;

  // Offsets within a slot for one inverse root. root_bytes is the size of the slot.
  int64_t root = 0;       // a RootWorkspace of the root dtype
  int64_t root_ints = 0;  // the integers of this workspace
  int64_t root_bytes = 0;

  blas::ScratchExtent scratch;  // scratch memory of the BLAS, for each thread

  // Shared by all threads: the number of elements of a RootWorkspace of float64 for the recovery ladder. 0 if all root
  // dtypes are float64.
  int64_t recovery_elements = 0;
  int64_t recovery_bytes = 0;  // bytes of the elements and the integers of this workspace
  // Shared by all threads: bytes of the float64 sums for the exact check of a gradient.
  int64_t inspection_bytes = 0;

  int item_slots = 0;  // the largest number of blocks whose steps run at the same time, each on its own thread
  int root_slots = 0;  // the largest number of roots that are computed at the same time, each on its own thread
  int slots = 0;       // the largest number of threads that work at the same time, including threads that run tiles

  // Returns a layout that is large enough for each of the blocks. largest_dim: the longest dim of any block that may
  // need the exact check of its gradient.
  static WorkspaceLayout For(const std::vector<const Block*>& blocks, int64_t largest_dim,
                             const std::vector<Settings>& groups, int threads);

  int64_t ItemAt(int slot) const { return slot * item_bytes; }
  int64_t RootAt(int slot) const { return item_slots * item_bytes + slot * root_bytes; }
  int64_t RecoveryAt() const { return RootAt(root_slots); }
  int64_t InspectionAt() const { return RecoveryAt() + recovery_bytes; }
  int64_t bytes() const { return InspectionAt() + inspection_bytes; }
};

// Returns the workspace bytes that the CPU backend allocates for these blocks. This function is an argument of
// Plan::Create(), with the type Plan::WorkspaceBytes.
int64_t CpuWorkspaceBytes(const PlanData& plan, size_t rank, const std::vector<const Block*>& blocks);

// Returns the length of the longest dim of all blocks of the plan, including the blocks of other ranks.
int64_t LargestDim(const PlanData& plan);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/block_step.h"

namespace shampoo {

// Inputs for the step of one block, and the memory of the worker that makes the step. Real is the computation dtype.
template <typename Real>
struct BlockContext {
  BlockContext(const StepItem& step_item, const StepMemory& step_memory, Team::Worker* step_worker)
      : item(step_item),
        program(*step_item.program),
        block(*step_item.block),
        memory(step_memory),
        layout(*step_memory.layout),
        own(step_memory.workspace + layout.ItemAt(step_worker->slot())),
        worker(step_worker) {}

  // Returns a pointer into the worker's memory. offset: a member of `layout`, such as layout.gradient.
  Real* At(int64_t offset) const { return reinterpret_cast<Real*>(own + offset); }
  // Returns an object that divides the work of a phase among idle threads, and measures the time of the phase.
  PhaseScope Scope(StepPhase phase) const { return PhaseScope(worker, memory.times, phase); }
  // Returns the number of elements in a row of the block; 0 if the block is not a matrix.
  int64_t row() const { return block.order() == 2 ? block.shape[1] : 0; }

  const StepItem& item;
  const StepProgram& program;
  const Block& block;
  const StepMemory& memory;
  const WorkspaceLayout& layout;
  char* const own;  // the memory of the worker's slot, at WorkspaceLayout::ItemAt()
  Team::Worker* const worker;
};

}  // namespace shampoo

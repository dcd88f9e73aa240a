// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/phase_times.h"
#include "core/backend/cpu/slot_memory.h"
#include "core/backend/cpu/step_item.h"
#include "core/base/team.h"
#include "core/roots/ladder.h"

namespace shampoo {

// Memory for the steps of all blocks.
struct StepMemory {
  char* arena;
  const WorkspaceLayout* layout;  // the layout of `workspace`
  char* workspace;
  RecoveryMemory* recovery;
  PhaseTimes* times;  // nullptr if times are not measured
};

// Runs the step of one block. worker: the worker that calls this function. Idle workers may take tiles of the step.
void StepBlock(const StepItem& item, const StepMemory& memory, Team::Worker* worker);

}  // namespace shampoo

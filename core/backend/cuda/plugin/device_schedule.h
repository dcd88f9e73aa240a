// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/kernel_tables.h"
#include "core/rules/basis.h"

namespace shampoo::cuda {

// Returns the state snapshot_step of a block in an arena; 0 if the block does not have this state or if another rank
// owns the block.
SHAMPOO_DEVICE inline int64_t SnapshotStepOf(const DeviceBlock& block, const char* arena) {
  if (block.owned == 0 || !block.snapshot_step.present()) return 0;
  return *reinterpret_cast<const int64_t*>(arena + block.snapshot_step.offset);
}

// Returns the state gradient_count of a block in an arena; 0 if the block does not have this state or if another rank
// owns the block.
SHAMPOO_DEVICE inline int64_t GradientCountOf(const DeviceBlock& block, const char* arena) {
  if (block.owned == 0 || !block.gradient_count.present()) return 0;
  return *reinterpret_cast<const int64_t*>(arena + block.gradient_count.offset);
}

// Returns the state from which the host derives the tasks of a block: gradient_count if the block has it, otherwise
// snapshot_step.
SHAMPOO_DEVICE inline int64_t BlockCounterOf(const DeviceBlock& block, const char* arena) {
  return block.gradient_count.present() ? GradientCountOf(block, arena) : SnapshotStepOf(block, arena);
}

// Returns the schedule of a block's roots in a step. arena: the state before the step.
SHAMPOO_DEVICE inline RootSchedule ScheduleFor(const DeviceGroup& group, const DeviceBlock& block, const char* arena) {
  return ScheduleOf(group.settings, group.schedule,
                    {.is_owned = block.owned != 0,
                     .is_rotated = block.is_rotated(),
                     .is_preconditioned = block.factors > 0,
                     .phase = block.phase,
                     .gradient_count = GradientCountOf(block, arena),
                     .snapshot_step = SnapshotStepOf(block, arena)});
}

}  // namespace shampoo::cuda

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/kernel_tables.h"

namespace shampoo::cuda {

// Returns the state snapshot_step of a block in an arena, or 0 if it has none: without root_async, or if another rank
// owns the block.
SHAMPOO_DEVICE inline int64_t SnapshotStepOf(const DeviceBlock& block, const char* arena) {
  if (block.owned == 0 || !block.snapshot_step.present()) return 0;
  return *reinterpret_cast<const int64_t*>(arena + block.snapshot_step.offset);
}

// Returns the schedule of a block's roots in a step. arena: the state before the step.
SHAMPOO_DEVICE inline RootSchedule ScheduleFor(const DeviceGroup& group, const DeviceBlock& block, const char* arena) {
  return BlockScheduleOf(group.schedule, block.phase, block.factors > 0, SnapshotStepOf(block, arena));
}

}  // namespace shampoo::cuda

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/kernel_tables.h"

namespace shampoo::cuda {

// The state snapshot_step of a block in an arena; 0 where there is none: without root_async, or on another rank.
SHAMPOO_DEVICE inline int64_t SnapshotStepOf(const DeviceBlock& block, const char* arena) {
  if (block.owned == 0 || !block.snapshot_step.present()) return 0;
  return *reinterpret_cast<const int64_t*>(arena + block.snapshot_step.offset);
}

// Returns what a step does for the roots of a block. arena: the state before the step.
SHAMPOO_DEVICE inline RootSchedule ScheduleFor(const DeviceGroup& group, const DeviceBlock& block, const char* arena) {
  return ScheduleOf(group.schedule, block.phase, block.factors > 0, SnapshotStepOf(block, arena));
}

}  // namespace shampoo::cuda

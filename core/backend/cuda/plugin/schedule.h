// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/tables.h"

namespace shampoo::cuda {

SHAMPOO_DEVICE inline RootTask ScheduledTask(const GroupScalars& group, const DeviceBlock& block) {
  return ScheduleOf(group.schedule, block.phase, block.factors > 0).task;
}

// As Optimizer::ScheduleOf (core/optimizer): what is done for the roots of a block that is stepped. kNone where there
// is no snapshot of the right step.
SHAMPOO_DEVICE inline RootTask ActualTask(const Tables& tables, int32_t b) {
  const DeviceBlock& block = tables.blocks[b];
  const GroupScalars& group = tables.groups[block.group];
  const RootTask task = ScheduledTask(group, block);
  if (task != RootTask::kFromSnapshot) return task;
  const int64_t taken = *reinterpret_cast<const int64_t*>(tables.state_out + block.snapshot_step.offset);
  return taken == group.t - group.schedule.keys.async ? tables.tasks[b] : RootTask::kNone;
}

SHAMPOO_DEVICE inline DirectionRule RuleFor(const GroupScalars& group, const DeviceBlock& block) {
  return ScheduleOf(group.schedule, block.phase, block.factors > 0).rule;
}

}  // namespace shampoo::cuda

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/tables.h"

namespace shampoo::cuda {

// As ScheduleAt (core/step): what the step does with the roots of a block.
SHAMPOO_DEVICE inline bool RootsAreDue(const GroupScalars& group, const DeviceBlock& block) {
  return shampoo::RootsAreDue(group.t, group.start + block.phase, group.frequency, group.root_spread != 0);
}

SHAMPOO_DEVICE inline DirectionRule RuleFor(const GroupScalars& group, const DeviceBlock& block) {
  return RuleAt(group.t, group.start + block.phase, group.grafting, group.initial_inverse);
}

}  // namespace shampoo::cuda

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/tables.h"

namespace shampoo::cuda {

// As ScheduleAt (core/step): what the step does with the roots of a block.
SHAMPOO_DEVICE inline bool RootsAreDue(const GroupScalars& group, const DeviceBlock& block) {
  const int64_t start = group.start + block.phase;
  const int64_t since = group.root_spread != 0 ? group.t - start : group.t;
  return group.t == start || (group.t > start && since % group.frequency == 0);
}

SHAMPOO_DEVICE inline DirectionRule RuleFor(const GroupScalars& group, const DeviceBlock& block) {
  if (group.t >= group.start + block.phase) return DirectionRule::kPrecondition;
  if (group.grafting != Grafting::kNone) return DirectionRule::kGraft;
  return group.initial_inverse == InitialInverse::kIdentity ? DirectionRule::kFiltered : DirectionRule::kZero;
}

}  // namespace shampoo::cuda

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/step_item.h"
#include "core/base/tiles.h"
#include "core/rules/update.h"

namespace shampoo {

// Returns whether ApplyDirection would write only finite numbers, in every dtype that it writes. Reads neither
// the parameter nor the momentum if all of these conditions hold: the direction is small, the step has no momentum and
// does not decay the parameter (decays_parameter()), BoundsSuffice() is true, and the rounding mode is to nearest.
template <typename Real>
bool CanApply(const StepItem& item, const Real* p, const DirectionScale& scale, const char* arena, Tiles* tiles);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/step_item.h"
#include "core/base/tiles.h"
#include "core/rules/update.h"

namespace shampoo {

// Returns whether ApplyDirection() would write only finite numbers, in every dtype that it writes. FitCheckFor()
// (core/rules/update.h) selects the FitCheckMode; its argument bounds_suffice is false unless BoundsSuffice() is true
// and the rounding mode is to nearest. With FitCheckMode::kNone, CanApply() reads neither the parameter nor the
// momentum.
template <typename Real>
bool CanApply(const StepItem& item, const Real* p, const DirectionScale& scale, const char* arena, Tiles* tiles);

}  // namespace shampoo

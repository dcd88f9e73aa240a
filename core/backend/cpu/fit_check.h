// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/step_item.h"
#include "core/base/tiles.h"
#include "core/rules/update.h"

namespace shampoo {

// Returns whether ApplyDirection would write only finite numbers, in every dtype that it writes. Reads the parameter
// and the momentum only with decoupled decay or momentum, or if the direction is large.
template <typename Real>
bool CanApply(const StepItem& item, const Real* p, const DirectionScale& scale, const char* arena, Tiles* tiles);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/step_item.h"
#include "core/base/tiles.h"

namespace shampoo {

// Whether ApplyDirection would write only finite numbers, in every dtype that it writes. size: a bound on |P|, infinite
// or NaN where P is. W and M are read only with decoupled decay or momentum, or where the direction is large.
template <typename Real>
bool CanApply(const StepItem& item, const Real* p, double scale_down, double scale_up, double size, const char* arena,
              Tiles* tiles);

}  // namespace shampoo

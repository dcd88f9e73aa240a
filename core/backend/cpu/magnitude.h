// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cpu/step_item.h"
#include "core/base/largest_magnitude.h"

namespace shampoo {

// Checks the gradient of a block element by element. sums: working memory for d numbers, where d is the length of the
// block's largest dim.
GradientInspection InspectGradient(const StepItem& item, double* sums);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cpu/step_item.h"
#include "core/base/largest_magnitude.h"

namespace shampoo {

// Computes the values that the exact check of the gradient of one block needs. sums: working memory for d numbers,
// where d is the length of the block's longest dim.
GradientInspection InspectGradient(const StepItem& item, double* sums);

}  // namespace shampoo

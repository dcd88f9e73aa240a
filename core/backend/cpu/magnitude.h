// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cpu/step_item.h"

namespace shampoo {

// Returns the largest magnitude among n elements: NaN if one is NaN, otherwise infinity if one is infinite.
double LargestMagnitude(const void* data, Dtype dtype, int64_t n);

// Checks the gradient of a block element by element. sums: working memory for as many numbers as the block's largest
// dim.
GradientInspection InspectGradient(const StepItem& item, double* sums);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cpu/step_item.h"

namespace shampoo {

// The largest magnitude among n elements; NaN if one is NaN, else infinity if one is infinite.
double LargestMagnitude(const void* data, Dtype dtype, int64_t n);

// sums: memory for as many numbers as the largest dim of the block.
GradientInspection InspectGradient(const StepItem& item, double* sums);

}  // namespace shampoo

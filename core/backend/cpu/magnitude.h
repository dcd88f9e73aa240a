// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/plan/block.h"

namespace shampoo {

// The largest magnitude among n elements; NaN if one is NaN, else infinity if one is infinite.
double LargestMagnitude(const void* data, Dtype dtype, int64_t n);

// The first element that is NaN or infinite, or -1.
int64_t FindNonFinite(const void* data, Dtype dtype, int64_t n);

// The sum of squares, in float64, of the block's elements in the buffer of its parameter.
double SquaredNorm(const Block& block, const void* data, Dtype dtype);

}  // namespace shampoo

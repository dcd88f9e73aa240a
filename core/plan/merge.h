// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/plan/shape.h"

namespace shampoo {

// Returns fewer, larger dims with the same elements in the same order. Dims of 1 are dropped; if nothing is left (a
// scalar, or all dims 1) the shape is (1). Two neighbors become one dim while their product stays <= max_dim:
//   min_dim 0: all of them, from left to right.
//   min_dim above 0: from right to left, where one of the two is below min_dim, and while more than two dims are left.
//   So kernels of convolutions join the input channels, and heads of attention their width, whatever their order; a
//   matrix stays a matrix.
// Requires max_dim >= 1, min_dim >= 0 and no empty dims.
Shape MergeDims(const Shape& shape, int64_t max_dim, int64_t min_dim);

}  // namespace shampoo

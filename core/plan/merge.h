// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/plan/shape.h"

namespace shampoo {

// Fewer, larger dims with the same elements in the same order: dims of 1 go, then from left to right each dim is
// multiplied into the one before it while their product stays <= max_dim. A dim that is larger than max_dim by itself
// stays as it is. If nothing is left (a scalar, or all dims 1) the shape is (1).
// Needs max_dim >= 1 and no empty dims.
Shape MergeDims(const Shape& shape, int64_t max_dim);

}  // namespace shampoo

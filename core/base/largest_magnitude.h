// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/dtype.h"

namespace shampoo {

// Returns the largest magnitude among n elements. If any element is NaN, returns NaN.
double LargestMagnitude(const void* data, Dtype dtype, int64_t n);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/dtype.h"

namespace shampoo {

// Returns the largest magnitude among n elements: NaN if one is NaN, otherwise infinity if one is infinite.
double LargestMagnitude(const void* data, Dtype dtype, int64_t n);

}  // namespace shampoo

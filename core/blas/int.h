// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::blas {

// Converts an extent to the integer type of BLAS and LAPACK. Plans contain no extents that are too large for this type.
constexpr int Int(int64_t extent) { return static_cast<int>(extent); }

}  // namespace shampoo::blas

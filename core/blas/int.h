// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::blas {

// An extent as BLAS and LAPACK take it; plans hold no larger ones.
constexpr int Int(int64_t extent) { return static_cast<int>(extent); }

}  // namespace shampoo::blas

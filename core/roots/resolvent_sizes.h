// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

// The range of sizes n for which root_method=eigen computes the inverse square root of an n x n matrix in float32 from
// a sum of shifted inverses (resolvent.h) instead of eigenvectors. See UsesResolvents() (resolvent_root.h).
inline constexpr int64_t kMinResolventSize = 8;
inline constexpr int64_t kMaxResolventSize = 512;

}  // namespace shampoo

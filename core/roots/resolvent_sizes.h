// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

// The range of sizes n for which the inverse square root in float32 is computed without eigenvectors.
inline constexpr int64_t kMinResolventSize = 8;
inline constexpr int64_t kMaxResolventSize = 512;

}  // namespace shampoo

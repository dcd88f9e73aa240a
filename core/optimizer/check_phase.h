// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

// Gradients are scanned in stretches of at most this many elements, so that one large parameter keeps all threads busy.
inline constexpr int64_t kScanStretch = int64_t{1} << 16;

inline constexpr int64_t StretchCount(int64_t elements) { return (elements + kScanStretch - 1) / kScanStretch; }

}  // namespace shampoo

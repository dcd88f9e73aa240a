// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cpu/cpu_backend.h"

namespace shampoo {

// Gradients are scanned in stretches of at most this many elements, so that one large parameter keeps all threads busy.
inline constexpr int64_t kScanStretch = int64_t{1} << 16;

inline constexpr int64_t StretchCount(int64_t elements) { return (elements + kScanStretch - 1) / kScanStretch; }

// Whether no state of the block can overflow if no element of G is larger than `largest`. NaN and infinity are not
// harmless. state: the arena, or nullptr where the block's states are not here: it is the gradient alone that is
// judged.
bool IsHarmless(CpuBackend* backend, const StepItem& item, double largest, const char* state);

}  // namespace shampoo

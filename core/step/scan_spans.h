// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/backend/cpu/step_item.h"
#include "core/base/convert.h"

namespace shampoo {

// Gradients and parameters are scanned in spans of at most this many elements, so that one large parameter keeps all
// threads busy.
inline constexpr int64_t kScanElements = int64_t{1} << 16;

// Returns the number of spans for this many elements.
constexpr int64_t ScanSpans(int64_t elements) { return (elements + kScanElements - 1) / kScanElements; }

// Calls visit(span) for the spans of an array, in order.
template <typename Visit>
void ForEachScanSpan(const MemorySpan& array, Visit&& visit) {
  for (int64_t first = 0; first < array.elements; first += kScanElements) {
    visit(MemorySpan{ElementAt(array.data, array.dtype, first), array.dtype,
                     std::min(kScanElements, array.elements - first)});
  }
}

}  // namespace shampoo

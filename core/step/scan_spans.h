// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/backend/cpu/step_item.h"
#include "core/base/convert.h"

namespace shampoo {

// The largest number of elements in a span. Gradients and parameters are checked and hashed in spans, so that all
// threads can work on one large parameter at the same time.
inline constexpr int64_t kScanElements = int64_t{1} << 16;

// Returns the number of spans into which an array with this many elements is divided.
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

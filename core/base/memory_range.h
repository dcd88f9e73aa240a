// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

// A range of memory. If `start` is nullptr, the range is empty.
struct MemoryRange {
  const void* start;
  int64_t bytes;

  bool Overlaps(const MemoryRange& other) const {
    if (start == nullptr || other.start == nullptr) return false;
    const auto own_start = reinterpret_cast<uintptr_t>(start);
    const auto other_start = reinterpret_cast<uintptr_t>(other.start);
    return own_start < other_start + static_cast<uintptr_t>(other.bytes) &&
           other_start < own_start + static_cast<uintptr_t>(bytes);
  }
};

}  // namespace shampoo

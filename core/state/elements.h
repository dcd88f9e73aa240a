// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/device_type.h"
#include "core/state/optimizer_state.h"

namespace shampoo {

// A range of elements of one entry.
struct ElementRange {
  int64_t entry;  // number of the entry
  int64_t first;
  int64_t count;
};

// The memory of a caller's buffer, and the stream in whose order it is used.
struct CallerMemory {
  DeviceType device = DeviceType::kCpu;
  void* stream = nullptr;
};

// Finds an entry by its number.
Status FindEntry(const OptimizerState& state, int64_t index, const StateEntry** entry);

// Copy elements to and from a buffer of the caller. `memory` describes the buffer.
Status ReadElements(OptimizerState* state, const ElementRange& range, void* to, size_t to_bytes,
                    const CallerMemory& memory);
Status WriteElements(OptimizerState* state, const ElementRange& range, const void* from, size_t from_bytes,
                     const CallerMemory& memory);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/device_type.h"
#include "core/state/optimizer_state.h"

namespace shampoo {

// A range of elements of one StateEntry (see entries.h).
struct ElementRange {
  int64_t entry;  // index of the entry in OptimizerState::entries()
  int64_t first;
  int64_t count;
};

// The device of a caller's buffer, and the stream in whose order the buffer is used.
struct CallerMemory {
  DeviceType device = DeviceType::kCpu;
  void* stream = nullptr;
};

// Finds an entry by its index. Returns an error if there is no such entry.
Status FindEntry(const OptimizerState& state, int64_t index, const StateEntry** entry);

// Copy elements of an entry to and from a buffer of the caller. `memory` describes the buffer.
Status ReadElements(OptimizerState* state, const ElementRange& range, void* to, size_t to_bytes,
                    const CallerMemory& memory);
Status WriteElements(OptimizerState* state, const ElementRange& range, const void* from, size_t from_bytes,
                     const CallerMemory& memory);

}  // namespace shampoo

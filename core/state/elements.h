// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/device_type.h"
#include "core/state/optimizer_state.h"

namespace shampoo {

// Elements of the entry with this number, which are copied to and from buffers of the caller.
struct ElementRange {
  int64_t entry;
  int64_t first;
  int64_t count;
};

// Where a buffer of the caller lies, and the stream in whose order it is used.
struct CallerMemory {
  DeviceType device = DeviceType::kCpu;
  void* stream = nullptr;
};

// Finds an entry by its number.
Status FindEntry(const OptimizerState& state, int64_t index, const StateEntry** entry);

Status ReadElements(OptimizerState* state, const ElementRange& range, void* to, size_t to_bytes,
                    const CallerMemory& memory);
Status WriteElements(OptimizerState* state, const ElementRange& range, const void* from, size_t from_bytes,
                     const CallerMemory& memory);

}  // namespace shampoo

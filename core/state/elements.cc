// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/state/elements.h"

#include <vector>

#include "core/base/amount.h"

namespace shampoo {

Status FindEntry(const OptimizerState& state, int64_t index, const StateEntry** entry) {
  const auto count = static_cast<int64_t>(state.entries().size());
  if (index < 0 || index >= count) return Invalid("index is ", index, ": expected ", IndicesText(count));
  *entry = &state.entries()[static_cast<size_t>(index)];
  return {};
}

Status ReadElements(OptimizerState* state, const ElementRange& range, void* to, size_t to_bytes,
                    const CallerMemory& memory) {
  const StateEntry* entry = nullptr;
  SHAMPOO_RETURN_IF_ERROR(FindEntry(*state, range.entry, &entry));
  SHAMPOO_RETURN_IF_ERROR(CheckElements(*entry, range.first, range.count, "dst", to_bytes));
  SHAMPOO_RETURN_IF_ERROR(state->FinishSteps(memory.stream));
  std::vector<char> copy;
  const char* stored = nullptr;
  SHAMPOO_RETURN_IF_ERROR(state->View(*entry, &copy, &stored));
  if (memory.device == DeviceType::kCpu) {
    return ReadEntry(*entry, stored, range.first, range.count, to, to_bytes);
  }
  std::vector<char> elements(static_cast<size_t>(range.count) * SizeOf(entry->dtype));
  SHAMPOO_RETURN_IF_ERROR(ReadEntry(*entry, stored, range.first, range.count, elements.data(), elements.size()));
  return state->memory().Upload(to, elements.data(), static_cast<int64_t>(elements.size()));
}

Status WriteElements(OptimizerState* state, const ElementRange& range, const void* from, size_t from_bytes,
                     const CallerMemory& memory) {
  const StateEntry* entry = nullptr;
  SHAMPOO_RETURN_IF_ERROR(FindEntry(*state, range.entry, &entry));
  SHAMPOO_RETURN_IF_ERROR(CheckElements(*entry, range.first, range.count, "src", from_bytes));
  SHAMPOO_RETURN_IF_ERROR(state->FinishSteps(memory.stream));
  std::vector<char> elements;
  if (memory.device != DeviceType::kCpu) {
    elements.resize(static_cast<size_t>(range.count) * SizeOf(entry->dtype));
    SHAMPOO_RETURN_IF_ERROR(state->memory().Download(elements.data(), from, static_cast<int64_t>(elements.size())));
    from = elements.data();
    from_bytes = elements.size();
  }
  std::vector<char> copy;
  return state->Change(*entry, &copy, [&](char* stored) {
    return WriteEntry(*entry, stored, range.first, range.count, from, from_bytes);
  });
}

}  // namespace shampoo

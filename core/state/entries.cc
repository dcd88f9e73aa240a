// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/state/entries.h"

#include <algorithm>
#include <cstring>

#include "core/base/text.h"
#include "core/plan/block_states.h"
#include "core/plan/memory_layout.h"

namespace shampoo {
namespace {

StateEntry EntryOf(std::string key, const Shape& shape, const StateSlot& slot) {
  StateEntry entry;
  entry.key = std::move(key);
  entry.shape = shape;
  entry.dtype = slot.dtype;
  entry.arena_offset = slot.offset;
  entry.form = slot.form;
  const bool symmetric = slot.form != SymmetricForm::kNone;
  entry.stored_bytes =
      (symmetric ? KeptElements(slot.form, shape[0]) : shape.Product()) * static_cast<int64_t>(SizeOf(slot.dtype));
  return entry;
}

void AppendBlock(const PlanData& plan, const Block& block, std::vector<StateEntry>* entries) {
  const std::string name = BlockName(plan.param(block), block);
  ForEachState(&block, [&](const auto& state) {
    if (!state.slot->present()) return;
    StateEntry entry = EntryOf(Cat(name, "/", state.Name()), state.shape, *state.slot);
    if (state.is_elementwise) entry.flat_offset = block.global_offset;
    entry.piece_of_shard = block.piece_of_shard;
    entry.block = &block - plan.blocks.data();
    entries->push_back(std::move(entry));
  });
}

}  // namespace

int64_t StateEntry::span_bytes() const {
  return (symmetric() ? SpanElements(form, shape[0]) : elements()) * static_cast<int64_t>(SizeOf(dtype));
}

Status CheckElements(const StateEntry& entry, int64_t first, int64_t count, const char* which, size_t bytes) {
  if (first < 0 || count < 0 || first > entry.elements() || count > entry.elements() - first) {
    return Invalid("entry \"", entry.key, "\": first is ", first, " and count is ", count,
                   ": expected a range within [0, ", entry.elements(), "), the elements of the entry");
  }
  const size_t needed = static_cast<size_t>(count) * SizeOf(entry.dtype);
  if (bytes < needed) {
    return Invalid("entry \"", entry.key, "\": ", which, "_bytes is ", bytes, ": expected at least ", needed,
                   ", because count is ", count, " and the dtype is ", NameOf(entry.dtype));
  }
  return {};
}

std::vector<StateEntry> ListEntries(const PlanData& plan) {
  std::vector<StateEntry> entries;
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    entries.push_back(
        EntryOf(Cat("group.", g, "/step"), Shape{}, {static_cast<int64_t>(g) * 8, Dtype::kI64, SymmetricForm::kNone}));
  }
  for (const Block& block : plan.blocks) {
    if (plan.Owns(block)) AppendBlock(plan, block, &entries);
  }
  for (StateEntry& entry : entries) {
    entry.owner = plan.placement.replica_rank;
    entry.shard_owner = plan.placement.shard_rank;
  }
  return entries;
}

Status ReadEntry(const StateEntry& entry, const char* memory, int64_t first, int64_t count, void* to, size_t to_bytes) {
  SHAMPOO_RETURN_IF_ERROR(CheckElements(entry, first, count, "dst", to_bytes));
  const auto size = static_cast<int64_t>(SizeOf(entry.dtype));
  if (entry.form == SymmetricForm::kNone) {
    std::memcpy(to, memory + first * size, static_cast<size_t>(count * size));
    return {};
  }
  const int64_t n = entry.shape[0];
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = (first + i) / n;
    const int64_t column = (first + i) % n;
    // Reads only the lower triangle, even if the entry stores both triangles (kSquare): steps do not update the upper
    // triangle of a factor matrix.
    const int64_t kept = KeptAt(entry.form, n, std::max(row, column), std::min(row, column));
    std::memcpy(static_cast<char*>(to) + i * size, memory + kept * size, static_cast<size_t>(size));
  }
  return {};
}

Status WriteEntry(const StateEntry& entry, char* memory, int64_t first, int64_t count, const void* from,
                  size_t from_bytes) {
  SHAMPOO_RETURN_IF_ERROR(CheckElements(entry, first, count, "src", from_bytes));
  const auto size = static_cast<int64_t>(SizeOf(entry.dtype));
  if (entry.form == SymmetricForm::kNone) {
    std::memcpy(memory + first * size, from, static_cast<size_t>(count * size));
    return {};
  }
  const int64_t n = entry.shape[0];
  for (int64_t i = first; i < first + count; ++i) {
    const int64_t row = i / n;
    const int64_t column = i % n;
    if (row < column) continue;
    const char* const element = static_cast<const char*>(from) + (i - first) * size;
    std::memcpy(memory + KeptAt(entry.form, n, row, column) * size, element, static_cast<size_t>(size));
    if (entry.form != SymmetricForm::kSquare) continue;
    std::memcpy(memory + (column * n + row) * size, element, static_cast<size_t>(size));
  }
  return {};
}

}  // namespace shampoo

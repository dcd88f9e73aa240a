// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/plan/block_states.h"
#include "core/plan/plan.h"

namespace shampoo {

// One named state of an optimizer (shampoo_state_entry of the public header).
struct StateEntry {
  std::string key;
  Shape shape;
  Dtype dtype = Dtype::kF32;
  int64_t arena_offset = 0;
  int64_t stored_bytes = 0;
  int64_t flat_offset = -1;
  int64_t block = -1;  // of the plan; -1: of a group
  int owner = 0;
  int shard_owner = 0;
  bool piece_of_shard = false;
  SymmetricForm form = SymmetricForm::kNone;

  int64_t elements() const { return shape.Product(); }
  bool elementwise() const { return flat_offset >= 0; }
  // Without it nothing is waiting, and no roots are known to be in use: zeros.
  bool of_snapshot() const { return state().starts_with("snapshot"); }
  bool symmetric() const { return form != SymmetricForm::kNone; }
  // From its first to its last in the arena; a factor matrix and its root may share them.
  int64_t span_bytes() const;
  // "momentum": its name among those of its block.
  std::string_view state() const { return std::string_view(key).substr(key.rfind('/') + 1); }
};

// All entries that this rank keeps, in the order of its arena.
std::vector<StateEntry> ListEntries(const PlanData& plan);

// Whether elements [first, first + count) are within the entry, and so many bytes enough for them; which: "dst", "src".
Status CheckElements(const StateEntry& entry, int64_t first, int64_t count, const char* which, size_t bytes);

// In what follows `memory` is where the entry lies, of span_bytes.

// Elements [first, first + count) in the entry's own dtype; of the full matrix where the entry is symmetric. Writing
// one takes its lower triangle and ignores what is above.
Status ReadEntry(const StateEntry& entry, const char* memory, int64_t first, int64_t count, void* to, size_t to_bytes);
Status WriteEntry(const StateEntry& entry, char* memory, int64_t first, int64_t count, const void* from,
                  size_t from_bytes);

// What is kept of an entry, dense, as files have it: all elements, of a symmetric matrix the lower triangle, row after
// row. It is counted in rows: of a symmetric entry of order n, n rows of 1 to n elements; else each element is one.
int64_t PackedRows(const StateEntry& entry);
int64_t PackedBytes(const StateEntry& entry);
int64_t PackedBefore(const StateEntry& entry, int64_t row);  // elements before a row; of all rows: of the entry
// The end of the rows from `first` on that have no more than so many elements together; one row at least.
int64_t LastRowWithin(const StateEntry& entry, int64_t first, int64_t elements);
// Rows [first, last) out of and into its memory. The range must lie within the entry.
void PackRows(const StateEntry& entry, const char* memory, int64_t first, int64_t last, char* to);
void UnpackRows(const StateEntry& entry, const char* from, int64_t first, int64_t last, char* memory);

}  // namespace shampoo

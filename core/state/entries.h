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
  // Whether it is a state of root_async. A checkpoint may lack it: zeros mean that no inverse root is pending.
  bool of_snapshot() const { return state().starts_with("snapshot"); }
  bool symmetric() const { return form != SymmetricForm::kNone; }
  // The bytes from its first to its last element in the arena. A factor matrix and its root may share them.
  int64_t span_bytes() const;
  // Its name within its block, such as "momentum".
  std::string_view state() const { return std::string_view(key).substr(key.rfind('/') + 1); }
};

// Returns all entries of this rank, in the order of its arena.
std::vector<StateEntry> ListEntries(const PlanData& plan);

// Checks that elements [first, first + count) are within the entry and fit into `bytes` bytes. which: the name of the
// caller's buffer in errors, "dst" or "src".
Status CheckElements(const StateEntry& entry, int64_t first, int64_t count, const char* which, size_t bytes);

// Below, `memory` is the address of the entry, span_bytes() long.

// Copy elements [first, first + count) in the entry's own dtype. A symmetric entry is copied as a full matrix; writing
// one uses its lower triangle and ignores the elements above.
Status ReadEntry(const StateEntry& entry, const char* memory, int64_t first, int64_t count, void* to, size_t to_bytes);
Status WriteEntry(const StateEntry& entry, char* memory, int64_t first, int64_t count, const void* from,
                  size_t from_bytes);

// The packed form of an entry, as files store it: all elements, or the lower triangle of a symmetric matrix, row after
// row. A symmetric entry of order n has n rows of 1 to n elements; in other entries each element is a row.
int64_t PackedRows(const StateEntry& entry);
int64_t PackedBytes(const StateEntry& entry);
int64_t PackedBefore(const StateEntry& entry, int64_t row);  // elements before a row
// Returns the end of the rows from `first` on that have at most `elements` elements together, but at least one row.
int64_t LastRowWithin(const StateEntry& entry, int64_t first, int64_t elements);
// Copy rows [first, last) out of and into the memory of the entry. The range must lie within the entry.
void PackRows(const StateEntry& entry, const char* memory, int64_t first, int64_t last, char* to);
void UnpackRows(const StateEntry& entry, const char* from, int64_t first, int64_t last, char* memory);

}  // namespace shampoo

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

// One named state of an optimizer (shampoo_state_entry in the public header).
struct StateEntry {
  std::string key;
  Shape shape;
  Dtype dtype = Dtype::kF32;
  int64_t arena_offset = 0;  // of the entry's first element, in bytes
  int64_t stored_bytes = 0;  // of the entry's own elements in the arena
  int64_t flat_offset = -1;  // as in shampoo_state_entry; -1: the entry is not elementwise
  int64_t block = -1;        // index in the plan; -1: the entry is the step counter of a group
  int owner = 0;
  int shard_owner = 0;
  bool piece_of_shard = false;  // Block::piece_of_shard
  SymmetricForm form = SymmetricForm::kNone;

  int64_t elements() const { return shape.Product(); }
  bool elementwise() const { return flat_offset >= 0; }
  // Returns whether the entry is a state that only root_async adds. If all these states of a block are 0, no inverse
  // root is pending. A load therefore sets them to 0 if the checkpoint does not contain them.
  bool is_snapshot() const { return state().starts_with("snapshot"); }
  bool symmetric() const { return form != SymmetricForm::kNone; }
  // Returns the number of bytes from the entry's first to its last element in the arena. The spans of a factor matrix
  // and its inverse root may overlap.
  int64_t span_bytes() const;
  // Returns the name of the state within its block, such as "momentum".
  std::string_view state() const { return std::string_view(key).substr(key.rfind('/') + 1); }
};

// Returns all entries of this rank: the step counters of the groups, then the states of the rank's blocks in the order
// of ForEachState(), which may differ from the order in the arena.
std::vector<StateEntry> ListEntries(const PlanData& plan);

// Checks that elements [first, first + count) are within the entry and fit into `bytes` bytes. which: the name of the
// caller's buffer in the error message, "dst" or "src".
Status CheckElements(const StateEntry& entry, int64_t first, int64_t count, const char* which, size_t bytes);

// In the functions below, `memory` is the address of the entry's span_bytes() bytes.

// Copy elements [first, first + count) in the entry's own dtype. A symmetric entry is read and written as a full
// matrix. Writing uses the lower triangle and ignores the elements above the diagonal.
Status ReadEntry(const StateEntry& entry, const char* memory, int64_t first, int64_t count, void* to, size_t to_bytes);
Status WriteEntry(const StateEntry& entry, char* memory, int64_t first, int64_t count, const void* from,
                  size_t from_bytes);

// Files store an entry in packed form: all elements, or the lower triangle of a symmetric matrix, row by row. A
// symmetric entry of size n has n rows of 1 to n elements. In any other entry, each element is a row.
int64_t PackedRows(const StateEntry& entry);
int64_t PackedBytes(const StateEntry& entry);
int64_t PackedBefore(const StateEntry& entry, int64_t row);  // the number of elements before a row
// Returns the end of the longest range of rows that begins with row `first` and has at most `elements` elements. The
// range has at least one row, even if that row is longer.
int64_t LastRowWithin(const StateEntry& entry, int64_t first, int64_t elements);
// Copy rows [first, last) of the packed form from and to the memory of the entry. The rows must be within the entry.
void PackRows(const StateEntry& entry, const char* memory, int64_t first, int64_t last, char* to);
void UnpackRows(const StateEntry& entry, const char* from, int64_t first, int64_t last, char* memory);

}  // namespace shampoo

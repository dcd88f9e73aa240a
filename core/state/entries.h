// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
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
  int owner = 0;
  int shard_owner = 0;
  bool piece_of_shard = false;
  SymmetricForm form = SymmetricForm::kNone;

  int64_t elements() const { return shape.Product(); }
};

// All entries that this rank keeps, in the order of its arena.
std::vector<StateEntry> ListEntries(const PlanData& plan);

// Elements [first, first + count) in the entry's own dtype; of the full matrix where the entry is symmetric. Writing
// one takes its lower triangle and ignores what is above.
Status ReadEntry(const StateEntry& entry, const char* arena, int64_t first, int64_t count, void* to, size_t to_bytes);
Status WriteEntry(const StateEntry& entry, char* arena, int64_t first, int64_t count, const void* from,
                  size_t from_bytes);

}  // namespace shampoo

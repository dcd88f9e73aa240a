// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/chunks.h"
#include "core/backend/cpu/step_item.h"

namespace shampoo {

// Parts of blocks that are brought together from shards (SliceOfBlock). A large part may be treated in several ranges
// of its elements, but for one whose elements are found only by going through it from the start.
inline bool IsDivisible(const SliceOfBlock& slice) { return slice.region->is_interval(); }

void CopySlice(const SliceCopy& copy, const Range& range);
void ApplySlice(const SliceItem& delivered, const Range& range);

}  // namespace shampoo

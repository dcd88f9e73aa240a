// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/chunks.h"
#include "core/backend/cpu/step_item.h"

namespace shampoo {

// Functions that copy and apply slices of blocks that are gathered from shards (SliceOfBlock).

// Returns whether a slice may be divided into several ranges. A slice that is not an interval cannot be divided,
// because its elements can only be visited in order from the first one.
inline bool IsDivisible(const SliceOfBlock& slice) { return slice.region->is_interval(); }

void CopySlice(const SliceCopy& copy, const Range& range);
void ApplySlice(const SliceItem& delivered, const Range& range);

}  // namespace shampoo

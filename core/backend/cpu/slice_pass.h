// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/chunks.h"
#include "core/backend/cpu/step_item.h"

namespace shampoo {

// Functions for slices of blocks, with shard_mode=gather. SliceOfBlock (step_item.h) describes a slice.

// Returns whether a call of CopySlice() or ApplySlice() may process only a range of the slice. If the region of the
// slice is not an interval of the flattened parameter, each call processes the whole slice.
inline bool IsDivisible(const SliceOfBlock& slice) { return slice.region->is_interval(); }

// Copies a range of a slice from one buffer to another. range: elements of the slice, counted in block order.
void CopySlice(const SliceCopy& copy, const Range& range);
// Writes the outputs for a range of a slice, from the received update or new parameter.
void ApplySlice(const SliceItem& delivered, const Range& range);

}  // namespace shampoo

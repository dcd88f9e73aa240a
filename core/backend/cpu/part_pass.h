// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/backend.h"
#include "core/backend/cpu/stretch.h"

namespace shampoo {

// Parts of blocks that are brought together from shards (PartOfBlock). A large part may be treated in several ranges of
// its elements, but for one whose elements are found only by going through it from the start.
inline bool IsDivisible(const PartOfBlock& part) { return part.region->is_interval(); }

void CopyPart(const PartCopy& copy, const Range& range);
void ApplyPart(const PartItem& part, const Range& range);

}  // namespace shampoo

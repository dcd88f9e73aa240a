// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/backend.h"
#include "core/backend/cpu/stretch.h"

namespace shampoo {

// Parts of blocks that are brought together from shards (PartOfBlock). A part may be treated piece by piece, each a
// range of its elements, where DividedElements says that it has several.
int64_t DividedElements(const PartOfBlock& part);

void CopyPart(const PartCopy& copy, const Range& range);
void ApplyPart(const PartItem& part, const Range& range);

}  // namespace shampoo

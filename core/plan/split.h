// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/plan/shape.h"

namespace shampoo {

// A block seen in place: element (i0, i1, ...) of the block is element offset + i0 stride[0] + i1 stride[1] + ... of
// the row-major tensor that was split.
struct BlockView {
  Shape shape;
  std::array<int64_t, kMaxDims> stride;  // in elements; 0 from shape.ndim on
  int64_t offset;                        // in elements
};

// How many blocks SplitBlocks gives, without making them: a small max_dim on a large tensor means more blocks than
// memory holds, which the caller refuses first. False if the count exceeds int64_t, and then *count is untouched (not
// possible for a shape whose product fits).
// Needs max_dim >= 1 and no empty dims.
bool CountBlocks(const Shape& shape, int64_t max_dim, int64_t* count);

// Cuts each dim into chunks of max_dim, the last of which may be short. The order of blocks is row-major in the chunk
// indices: dim 0 is outermost. A tensor with no dim above max_dim is one block; a scalar is one block of shape (1).
// Needs max_dim >= 1, no empty dims, and a product that fits int64_t.
std::vector<BlockView> SplitBlocks(const Shape& shape, int64_t max_dim);

}  // namespace shampoo

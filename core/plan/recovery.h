// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/shape.h"

namespace shampoo {

// A dense part of a tensor that a flat shard contains whole.
struct Piece {
  int64_t offset_in_shard;  // of its first element, in elements
  Shape shape;
};

// Cuts the flat shard [start, end) of a row-major tensor into dense pieces: it holds whole slices along dim 0, which
// stay one tensor (k, d1, ...), and at most two remainders, one on each side, which are cut the same way one dim
// deeper. A shard that is a proper part of one slice is cut as that slice is. Pieces are in memory order and cover the
// shard exactly; there are at most 2 ndim - 1 of them, none if the shard is empty. A scalar gives one piece of
// shape (1).
// Needs 0 <= start <= end <= shape.Product(), and no empty dims.
std::vector<Piece> RecoverPieces(const Shape& shape, int64_t start, int64_t end);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/plan/block.h"
#include "core/plan/shape.h"
#include "core/plan/shard_layout.h"

namespace shampoo {

// The elements of a parameter that belong to a block, and their sequence. Together with the name of the parameter, a
// BlockPlace identifies a block in a checkpoint, independently of the number of ranks. A block is a strided view of a
// piece of the parameter. The piece is the whole parameter or, with shard_mode=local, the region of the parameter that
// one rank holds.
struct BlockPlace {
  Shape shape;                             // of the block
  std::array<int64_t, kMaxDims> stride{};  // in the piece, which is row-major; in elements
  int64_t offset = 0;                      // of the first element of the block, in the piece
  Region piece;                            // the whole parameter, or a region of it

  static BlockPlace Of(const ParamDesc& desc, const Block& block);

  int64_t elements() const { return shape.Product(); }
  // Whether the piece is the whole parameter.
  bool is_whole() const { return piece.is_interval() && piece.extent == piece.shape; }
  // Returns the position, in the flattened parameter, of the block's first element. No two blocks of a parameter have
  // the same first element.
  int64_t first() const;
  // Checks a BlockPlace that was read from a file. Returns nullptr if it describes a block of a parameter with this
  // number of elements, otherwise a phrase for the error message. Call this function before any other function of the
  // object.
  const char* FindMistake(int64_t param_elements) const;
};

// The piece of a BlockPlace, as a strided view of the parameter.
struct PieceView {
  explicit PieceView(const Region& piece) : shape(piece.extent), stride(RowMajorStrides(piece.shape)) {
    for (int k = 0; k < shape.ndim; ++k) offset += piece.offset[k] * stride[static_cast<size_t>(k)];
  }
  Shape shape;
  std::array<int64_t, kMaxDims> stride;
  int64_t offset = 0;
};

// Elements [begin, end) of a block.
struct DenseRange {
  int64_t begin;
  int64_t end;
};
// Returns the elements of a block that are within elements [first, first + count) of the flattened parameter. The
// returned elements are a range, because the elements of a block have the same sequence as in the flattened parameter.
DenseRange Within(const BlockPlace& place, int64_t first, int64_t count);

// Calls visit(position in the block, position in the flattened parameter, number of elements) for each run of elements
// in `range` that are consecutive both in the block and in the flattened parameter.
template <typename Visit>
void ForEachRunOf(const BlockPlace& place, const DenseRange& range, Visit&& visit) {
  const PieceView piece(place.piece);
  ForEachRun(place.shape, place.stride, range.begin, range.end, [&](int64_t from, int64_t dense, int64_t length) {
    const int64_t local = place.offset + from;
    ForEachRun(piece.shape, piece.stride, local, local + length,
               [&](int64_t at, int64_t in_piece, int64_t n) { visit(dense + in_piece - local, piece.offset + at, n); });
  });
}

// Returns whether two blocks of a parameter have the same elements in the same sequence, even if they are described
// differently.
bool SamePlace(const BlockPlace& a, const BlockPlace& b);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/base/status.h"
#include "core/plan/block.h"
#include "core/plan/shape.h"
#include "core/plan/shard_layout.h"

namespace shampoo {

// Which elements of a parameter a block has, and in which order: the one thing, beside the name of the parameter, that
// tells blocks of a checkpoint apart, whatever ranks they were on. A block is a strided view of a piece, which is the
// whole parameter or the part of it that a rank held.
struct BlockPlace {
  Shape shape;                             // of the block
  std::array<int64_t, kMaxDims> stride{};  // in the piece, which is row-major, in elements
  int64_t offset = 0;
  Region piece;

  static BlockPlace Of(const ParamDesc& desc, const Block& block);

  int64_t elements() const { return shape.Product(); }
  bool is_whole() const { return piece.is_interval() && piece.extent == piece.shape; }
  // Of its first element in the flattened parameter. No two blocks of a checkpoint have the same.
  int64_t first() const;
  // Whether what was read from a file is a block of a parameter of so many elements; the functions here take no other.
  Status Check(int64_t param_elements) const;
};

// Where the piece's elements are: visited as strided views are.
struct PieceView {
  explicit PieceView(const Region& piece) : shape(piece.extent), stride(RowMajorStrides(piece.shape)) {
    for (int k = 0; k < shape.ndim; ++k) offset += piece.offset[k] * stride[static_cast<size_t>(k)];
  }
  Shape shape;
  std::array<int64_t, kMaxDims> stride;
  int64_t offset = 0;
};

// The elements [begin, end) of a block that lie within elements [first, first + count) of the flattened parameter: in
// both they come in the same order.
struct DenseRange {
  int64_t begin;
  int64_t end;
};
DenseRange Within(const BlockPlace& place, int64_t first, int64_t count);

// Visits elements [begin, end) of a block, a run at a time: visit(where in the block, where in the flattened parameter,
// how many).
template <typename Visit>
void ForEachRunOf(const BlockPlace& place, const DenseRange& range, Visit&& visit) {
  const PieceView piece(place.piece);
  ForEachRun(place.shape, place.stride, range.begin, range.end, [&](int64_t from, int64_t dense, int64_t length) {
    const int64_t local = place.offset + from;
    ForEachRun(piece.shape, piece.stride, local, local + length,
               [&](int64_t at, int64_t in_piece, int64_t n) { visit(dense + in_piece - local, piece.offset + at, n); });
  });
}

// Whether two blocks of a parameter have the same elements in the same order, however they came to be.
bool SamePlace(const BlockPlace& a, const BlockPlace& b);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/bits.h"
#include "core/backend/cuda/plugin/roots_chunk.h"
#include "core/rules/eigenvalue.h"

// What the kernels of roots share: pieces of matrices, and the members of a chunk.
namespace shampoo::cuda {

// Some rows of one matrix, a CTA's work.
struct RootPiece {
  int64_t member;
  int64_t first;
  int64_t rows;
};

SHAMPOO_DEVICE inline RootPiece PieceAt(const RootChunk& chunk, int64_t index) {
  const int64_t member = index / chunk.pieces;
  const int64_t first = index % chunk.pieces * chunk.rows;
  const int64_t left = chunk.n - first;
  return {member, first, left < chunk.rows ? left : chunk.rows};
}

struct RootPlace {
  int64_t row;
  int64_t column;
  SHAMPOO_DEVICE bool on_diagonal() const { return row == column; }
};

// Element i of a piece. A piece has few elements, and division is slow.
SHAMPOO_DEVICE inline RootPlace PlaceAt(const RootPiece& piece, int64_t n, int64_t i) {
  const auto at = static_cast<uint32_t>(i);
  const auto width = static_cast<uint32_t>(n);
  return {piece.first + at / width, at % width};
}

// Matrix or vector of a member.
template <typename Root>
SHAMPOO_DEVICE inline Root* MatrixOf(const RootChunk& chunk, void* base, int64_t member) {
  return static_cast<Root*>(base) + member * chunk.n * chunk.n;
}
template <typename Root>
SHAMPOO_DEVICE inline const Root* MatrixOf(const RootChunk& chunk, const void* base, int64_t member) {
  return static_cast<const Root*>(base) + member * chunk.n * chunk.n;
}
template <typename Root>
SHAMPOO_DEVICE inline const Root* VectorOf(const RootChunk& chunk, const void* base, int64_t member) {
  return static_cast<const Root*>(base) + member * chunk.n;
}

// The upper triangle of a matrix as the lower, whose rows are those of the piece.
template <typename Root>
SHAMPOO_DEVICE inline void MirrorPiece(const Cta& cta, const RootChunk& chunk, const RootPiece& piece, Root* matrix) {
  const int64_t n = chunk.n;
  const auto rows = static_cast<uint32_t>(piece.rows);
  // Down the few rows first, so that neighbours in the upper triangle are written one after another.
  cta.ForEach(piece.rows * (piece.first + piece.rows), [&](int64_t i) {
    const auto at = static_cast<uint32_t>(i);
    const int64_t row = piece.first + at % rows;
    const int64_t column = at / rows;
    if (column < row) matrix[column * n + row] = matrix[row * n + column];
  });
}

// Over the pieces of a member, in a kernel of one CTA for each.
SHAMPOO_DEVICE inline double LargestOfPieces(const Cta& cta, const RootChunk& chunk, int64_t pieces) {
  const RootPartial* const partials = chunk.partials + cta.index() * chunk.pieces;
  return BitsAs<double>(cta.Largest(pieces, [&](int64_t i) { return partials[i].largest; }));
}

// The kernel of a chunk for its root dtype. Members of a body are those of the chunk and then its arguments.
template <template <typename> class Body, typename... Arguments>
cudaError_t LaunchRoots(cudaStream_t stream, int64_t ctas, const RootChunk& chunk, const Arguments&... arguments) {
  if (chunk.root_dtype == Dtype::kF64) return Launch(stream, ctas, Body<double>{chunk, arguments...});
  return Launch(stream, ctas, Body<float>{chunk, arguments...});
}

}  // namespace shampoo::cuda

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/bits.h"
#include "core/backend/cuda/plugin/roots_chunk.h"
#include "core/rules/eigenvalue.h"

// Functions that the kernels for inverse roots share. A kernel works on one chunk: matrices of equal size, which are
// called the members of the chunk (roots_chunk.h).
namespace shampoo::cuda {

// Consecutive rows of one matrix: the work of one CTA.
struct RootPiece {
  int64_t member;
  int64_t first;  // index of the first row
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

// Returns the position of element i of a piece. A piece has so few elements that 32-bit division is sufficient. 32-bit
// division is faster than 64-bit division.
SHAMPOO_DEVICE inline RootPlace PlaceAt(const RootPiece& piece, int64_t n, int64_t i) {
  const auto at = static_cast<uint32_t>(i);
  const auto width = static_cast<uint32_t>(n);
  return {piece.first + at / width, at % width};
}

// Return the matrix or vector of a member in an array that has one matrix or vector for each member.
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

// Copies each element below the diagonal, in the rows of a piece, to its mirrored position above the diagonal.
template <typename Root>
SHAMPOO_DEVICE inline void MirrorPiece(const Cta& cta, const RootChunk& chunk, const RootPiece& piece, Root* matrix) {
  const int64_t n = chunk.n;
  const auto rows = static_cast<uint32_t>(piece.rows);
  // The row varies fastest, so that neighboring threads write neighboring elements of the upper triangle.
  cta.ForEach(piece.rows * (piece.first + piece.rows), [&](int64_t i) {
    const auto at = static_cast<uint32_t>(i);
    const int64_t row = piece.first + at % rows;
    const int64_t column = at / rows;
    if (column < row) matrix[column * n + row] = matrix[row * n + column];
  });
}

// Returns the largest RootPartial::first_magnitude of a member's first `pieces` partial results. CTA i of the kernel
// processes member i.
SHAMPOO_DEVICE inline double LargestOfPieces(const Cta& cta, const RootChunk& chunk, int64_t pieces) {
  const RootPartial* const partials = chunk.partials + cta.index() * chunk.pieces;
  return BitsAs<double>(cta.Largest(pieces, [&](int64_t i) { return partials[i].first_magnitude; }));
}

// Returns whether the computed Q and l are an eigendecomposition A = Q^T diag(l) Q of a member's matrix A. Verifies
// this with products with the vector of signs v (RootChunk::signs). CTA m of the kernel processes member m.
//   eigenvalues  l; if l is not ascending, the function returns false
//   product      A v
//   returned     for each i a pair: element i of Q^T Q v, and element i of Q^T diag(l) Q v
template <typename Root>
SHAMPOO_DEVICE inline bool DecompositionFits(const Cta& cta, const RootChunk& chunk, const void* eigenvalues,
                                             const void* product, const void* returned) {
  const int64_t n = chunk.n;
  const Root* const l = VectorOf<Root>(chunk, eigenvalues, cta.index());
  const Root* const av = VectorOf<Root>(chunk, product, cta.index());
  const Root* const back = static_cast<const Root*>(returned) + cta.index() * n * 2;
  const Root* const signs = static_cast<const Root*>(chunk.signs);
  const double lost = cta.Sum(n, [&](int64_t i) {
    const double difference = static_cast<double>(signs[i]) - static_cast<double>(back[2 * i]);
    return difference * difference;
  });
  const double wrong = cta.Sum(n, [&](int64_t i) {
    const double difference = static_cast<double>(av[i]) - static_cast<double>(back[2 * i + 1]);
    return difference * difference;
  });
  const double largest =
      BitsAs<double>(cta.Largest(n, [&](int64_t i) { return MagnitudeBits(static_cast<double>(l[i])); }));
  const bool rising = cta.First(n, [&](int64_t i) { return i > 0 && !(l[i - 1] <= l[i]); }) == n;
  const double size = static_cast<double>(n);
  return rising && PassesProbe(n, chunk.root_dtype, sqrt(lost / size), sqrt(wrong / size), largest);
}

// Returns how many CTAs of SumRows (roots_chunk.h) process one matrix.
inline int64_t RootStrips(int64_t n) { return (n + kCtaThreads - 1) / kCtaThreads; }

// Launches a kernel for the chunk's root dtype. Body: the kernel's struct (cta.h), whose fields are the chunk and then
// the arguments.
template <template <typename> class Body, typename... Arguments>
cudaError_t LaunchRoots(cudaStream_t stream, int64_t ctas, const RootChunk& chunk, const Arguments&... arguments) {
  if (chunk.root_dtype == Dtype::kF64) return Launch(stream, ctas, Body<double>{chunk, arguments...});
  return Launch(stream, ctas, Body<float>{chunk, arguments...});
}

}  // namespace shampoo::cuda

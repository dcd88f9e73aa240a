// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfloat>
#include <cmath>
#include <limits>

#include "core/backend/cuda/plugin/bits.h"
#include "core/backend/cuda/plugin/roots_chunk.h"

// The rules of core/roots, for one matrix, row or element on the device.
namespace shampoo::cuda {

// As ScaleExponent (core/roots/matrix.h).
SHAMPOO_DEVICE inline int RootScale(double largest, double shift) {
  constexpr int kMost = 900;
  const int of_shift = shift > 0 ? ilogb(shift) + 1 : -2000;
  const int of_matrix = largest > 0 ? ilogb(largest) + 1 : of_shift;
  const int k = of_matrix > of_shift - kMost ? of_matrix : of_shift - kMost;
  return k > -2000 ? k : 0;
}

// As WholeRootScale (core/roots/matrix.h).
SHAMPOO_DEVICE inline int WholeRootScale(int scale, double exponent) {
  const double root = fabs(1 / exponent);
  if (!(root >= 1 && root <= 64 && root == floor(root))) return scale;
  const int step = static_cast<int>(root);
  const int above = scale % step;
  return scale - (above < 0 ? above + step : above);
}

// As RootOfEigenvalue (core/roots/eigen.cc).
class EigenvalueRule {
 public:
  // epsilon: of the matrix itself; least and largest eigenvalue: of the scaled one.
  SHAMPOO_DEVICE EigenvalueRule(const RootSpec& spec, double epsilon, double exponent, int scale, double least,
                                double largest)
      : pseudo_inverse_(spec.pseudo_inverse),
        exponent_(exponent),
        least_(fmin(least, 0.0)),
        epsilon_(ldexp(epsilon, -scale)),
        cutoff_(fmax(spec.rank_rtol * fmax(largest, 0.0), ldexp(spec.rank_atol, -scale))),
        scale_(scale),
        is_scaled_(spec.relative_epsilon > 0),
        unscale_(exp2(static_cast<double>(scale) * exponent / 2)) {}

  // NaN: there is no such root.
  SHAMPOO_DEVICE double operator()(double l) const {
    if (pseudo_inverse_ && !(l > cutoff_)) return 0;
    // In this order: next to a large negative eigenvalue epsilon would be lost.
    const double shifted = pseudo_inverse_ ? l : (l - least_) + epsilon_;
    if (!(shifted > 0 || exponent_ >= 0)) return std::numeric_limits<double>::quiet_NaN();
    if (is_scaled_) return pow(shifted, exponent_);
    const double original = ldexp(shifted, scale_);
    if (IsFinite(original) && fabs(original) >= DBL_MIN) return pow(original, exponent_);
    // In two factors, as one may be out of range where the root is not.
    return pow(shifted, exponent_) * unscale_ * unscale_;
  }

 private:
  bool pseudo_inverse_;
  double exponent_;
  double least_;
  double epsilon_;
  double cutoff_;
  int scale_;
  bool is_scaled_;
  double unscale_;
};

// A sign that looks random, the same on every call.
SHAMPOO_DEVICE inline double SignAt(int64_t i) {
  uint64_t x = (static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return ((x ^ (x >> 31)) & 1) != 0 ? 1.0 : -1.0;
}

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

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/base/kernels/kernels.h"
#include "core/roots/zolotarev.h"

namespace shampoo {

// A symmetric tridiagonal matrix: d its diagonal (n), e what is beside it (n - 1).
struct Tridiagonal {
  int64_t n;
  const double* d;
  const double* e;
};

// What is known about the eigenvalues of a matrix without computing them all.
struct EigenvalueBounds {
  // At most the least eigenvalue l. If l < 0, it is l to 2^-40 of the largest magnitude; otherwise it is at least
  // min(l / 4, 2^-28 of the largest magnitude), or 0 if l is smaller.
  double least;
  double largest;  // at least the largest eigenvalue, and at most three times the largest magnitude
};

// By bisection with several points at a time.
EigenvalueBounds BoundEigenvalues(const Tridiagonal& t);

// Y = (T + shift I)^(-1/2) as a weighted sum of inverses (T + shift_j I)^-1, which are computed in float64. Each of
// them is semiseparable: above the diagonal all its columns are multiples of each other, up to the diagonal. So Y is
// never stored: its columns come from `count` generators, which grow by a row for each column.
class ResolventSum {
 public:
  static constexpr int64_t kColumns = TridiagonalKernels::kColumns;
  // The largest condition of T + shift I by the bounds.
  static constexpr double kLargestCondition = 1 << ZolotarevSum::kLargestCondition;

  // Elements of float64 that a sum keeps in memory of the caller, for matrices up to n x n.
  static constexpr int64_t Elements(int64_t n) { return n * ZolotarevSum::kMaxPoles; }
  // Elements of float64 that Multiply needs.
  static constexpr int64_t ScratchElements(int64_t n) { return n * TridiagonalKernels::kLanes; }

  // Whether (T + shift I)^(-1/2) can be computed to the accuracy of float32 within its range.
  static bool IsSuitable(const EigenvalueBounds& bounds, double shift);

  // The bounds are those of T, and suitable.
  ResolventSum(const Tridiagonal& t, const EigenvalueBounds& bounds, double shift, double* memory);

  int64_t poles() const { return poles_; }
  // At least the largest eigenvalue of Y.
  double largest() const { return largest_; }

  // y <- Y b
  void Multiply(const double* b, double* scratch, double* y) const;

  // The next columns of Y, from the left to the right. `Block` is what they add to those before.
  struct Block {
    int64_t count;                                                      // columns
    std::array<float, kColumns * ZolotarevSum::kMaxPoles> factors;      // count x poles: old generators to new rows
    std::array<double, ZolotarevSum::kMaxPoles> growth;                 // old generators to new generators
    std::array<double, kColumns * ZolotarevSum::kMaxPoles> generators;  // poles x kColumns: their new rows
    std::array<double, kColumns * kColumns> sums;  // count x kColumns: the square on the diagonal, lower triangle
  };
  // count: at most kColumns
  void Grow(int64_t count, Block* block);

 private:
  Tridiagonal t_;
  int64_t poles_ = 0;  // a multiple of kLanes; the weights of those in excess are 0
  int64_t columns_ = 0;
  double largest_;
  double* inverses_;
  std::array<double, ZolotarevSum::kMaxPoles> weights_{};
  std::array<double, ZolotarevSum::kMaxPoles> corner_{};
};

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/base/kernels/kernels.h"
#include "core/roots/zolotarev.h"

namespace shampoo {

// A symmetric tridiagonal matrix with diagonal d (n elements) and off-diagonal e (n - 1 elements).
struct Tridiagonal {
  int64_t n;
  const double* d;
  const double* e;
};

// Bounds on the eigenvalues of a tridiagonal matrix. g is Gershgorin's bound on the magnitudes of the eigenvalues. g is
// at most three times the largest of these magnitudes.
struct EigenvalueBounds {
  // A lower bound on the least eigenvalue l. If l < 0, the bound is at least l - 2^-40 g. If 0 <= l < 2^-28 g, the
  // bound is 0. Otherwise the bound is above l / 4.
  double least;
  // An upper bound on the largest eigenvalue, at most g.
  double largest;
};

// Computes `least` by bisection with several points at a time, and `largest` from Gershgorin's circles.
EigenvalueBounds BoundEigenvalues(const Tridiagonal& t);

// Y = (T + shift I)^(-1/2) for a tridiagonal T, as a weighted sum of inverses (T + shift_j I)^-1, which are computed in
// float64. ZolotarevSum gives the weights and the poles. shift_j follows from pole j. Each inverse is semiseparable:
// above the diagonal, each column is a multiple of the column before it. The columns of Y can therefore be computed one
// after another, and Y is never stored. These computations use generators, one for each of the poles() inverses. A
// generator consists of the elements on and above the diagonal in the last computed column of the inverse, and grows by
// one row per column.
class ResolventSum {
 public:
  static constexpr int64_t kColumns = TridiagonalKernels::kColumns;
  // The largest condition number of T + shift I, according to the bounds, for which a sum is suitable.
  static constexpr double kLargestCondition = 1 << ZolotarevSum::kLargestCondition;

  // Returns how many doubles of the caller's memory a sum uses for matrices up to n x n.
  static constexpr int64_t Elements(int64_t n) { return n * ZolotarevSum::kMaxPoles; }
  // Returns how many doubles Multiply needs as scratch memory.
  static constexpr int64_t ScratchElements(int64_t n) { return n * TridiagonalKernels::kLanes; }

  // Returns whether (T + shift I)^(-1/2) is in the range of float32 and can be computed with the accuracy of float32.
  static bool IsSuitable(const EigenvalueBounds& bounds, double shift);

  // Requires IsSuitable(bounds, shift), where `bounds` are the bounds of T. memory: Elements(n) doubles.
  ResolventSum(const Tridiagonal& t, const EigenvalueBounds& bounds, double shift, double* memory);

  int64_t poles() const { return poles_; }
  // Returns an upper bound on the largest eigenvalue of Y.
  double largest() const { return largest_; }

  // y <- Y b. scratch: ScratchElements(n) doubles.
  void Multiply(const double* b, double* scratch, double* y) const;

  // The factors, generators and sums from which the next columns of Y follow. Columns are computed from left to right.
  struct Block {
    int64_t count;  // the number of new columns; the rows with the same indices are called the new rows
    // count x poles. In new column m, the elements above the new rows are the sum over j of factors[m][j] times the old
    // generator j.
    std::array<float, kColumns * ZolotarevSum::kMaxPoles> factors;
    std::array<double, ZolotarevSum::kMaxPoles> growth;  // the old rows of generator j are multiplied by growth[j]
    std::array<double, kColumns * ZolotarevSum::kMaxPoles> generators;  // poles x kColumns: the new rows of generators
    // count x kColumns. For i <= m, sums[m][i] is the element of Y in new row i and new column m.
    std::array<double, kColumns * kColumns> sums;
  };
  // Computes the next `count` columns, at most kColumns.
  void Grow(int64_t count, Block* block);

 private:
  Tridiagonal t_;
  int64_t poles_ = 0;    // a multiple of kLanes; the weights of excess poles are 0
  int64_t columns_ = 0;  // how many columns Grow() has computed
  double largest_;
  double* inverses_;  // the result of TridiagonalKernels::inverse_pivots, in the memory of the caller
  std::array<double, ZolotarevSum::kMaxPoles> weights_{};
  std::array<double, ZolotarevSum::kMaxPoles> corner_{};  // argument of TridiagonalKernels::grow_resolvents
};

}  // namespace shampoo

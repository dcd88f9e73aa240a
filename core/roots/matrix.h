// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/convert.h"
#include "core/blas/mirror.h"
#include "core/roots/root.h"
#include "core/rules/eigenvalue.h"

namespace shampoo {

// A symmetric n x n matrix A = data / divisor, row-major. One triangle is read. ld: the row stride in elements.
template <typename Real>
struct SymmetricView {
  int64_t n;
  const Real* data;
  double divisor = 1;
  int64_t ld = n;
  bool upper = false;  // true: the upper triangle is read; false: the lower

  const Real* Row(int64_t i) const { return data + i * ld; }
  double At(int64_t i, int64_t j) const {
    return static_cast<double>(upper == (i <= j) ? Row(i)[j] : Row(j)[i]) / divisor;
  }
};

template <typename Real>
double TraceOf(const SymmetricView<Real>& matrix) {
  double trace = 0;
  for (int64_t i = 0; i < matrix.n; ++i) trace += matrix.At(i, i);
  return trace;
}

// Returns the matrix whose root is computed: with the key trace_scaling, `matrix` divided by a power of its trace,
// otherwise `matrix`.
template <typename Real>
SymmetricView<Real> DividedByTrace(const RootSpec& spec, SymmetricView<Real> matrix) {
  if (spec.trace_scaling != 0) matrix.divisor *= TraceDivisor(spec, TraceOf(matrix));
  return matrix;
}

// The memory to which a symmetric matrix is written, row-major.
template <typename Real>
struct SymmetricTarget {
  Real* data;
  int64_t ld;  // row stride in elements
  bool full;   // true: all elements are written; false: only the upper triangle

  static SymmetricTarget Full(int64_t n, Real* data) { return {data, n, true}; }
};

// Properties of a matrix, determined in one pass over it.
struct MatrixFacts {
  RootFailure failure = RootFailure::kNone;  // kNone, kNanInput or kInfInput
  bool diagonal = true;                      // every element off the diagonal is exactly 0
  double largest = 0;                        // largest magnitude of an element of A
  bool negligible = true;                    // see IsNegligible
  double mean_eigenvalue = 0;                // the trace divided by n
};

template <typename Real>
MatrixFacts Inspect(const SymmetricView<Real>& matrix) {
  MatrixFacts facts;
  const double divisor = matrix.divisor;
  double off_diagonal = 0;
  double diagonal = 0;
  double trace = 0;
  bool nan = false;
  for (int64_t i = 0; i < matrix.n; ++i) {
    const Real* const row = matrix.Row(i) + (matrix.upper ? i + 1 : 0);
    const int64_t count = matrix.upper ? matrix.n - 1 - i : i;
    Real largest = 0;
    for (int64_t j = 0; j < count; ++j) {
      const Real magnitude = std::fabs(row[j]);
      largest = magnitude > largest ? magnitude : largest;
      nan |= std::isnan(row[j]);
    }
    const Real middle = matrix.Row(i)[i];
    nan |= std::isnan(middle);
    off_diagonal = std::fmax(off_diagonal, static_cast<double>(largest));
    diagonal = std::fmax(diagonal, std::fabs(static_cast<double>(middle)));
    trace += static_cast<double>(middle) / static_cast<double>(matrix.n);  // the undivided sum might overflow
  }
  facts.diagonal = !nan && off_diagonal == 0;
  facts.largest = std::fmax(off_diagonal, diagonal) / divisor;
  facts.negligible = !nan && IsNegligible(std::fmax(off_diagonal, diagonal), DtypeOf<Real>());
  facts.mean_eigenvalue = trace / divisor;
  if (nan) {
    facts.failure = RootFailure::kNanInput;
  } else if (!std::isfinite(facts.largest)) {
    facts.failure = RootFailure::kInfInput;
  }
  return facts;
}

// Writes the lower triangle of A * 2^-k to `to`, with ElementScaling.
template <typename Real, typename Root>
void LoadLower(const SymmetricView<Real>& matrix, int k, Root* to) {
  const ElementScaling<Root> load(k, matrix.divisor);
  for (int64_t i = 0; i < matrix.n; ++i) {
    Root* const target = to + i * matrix.n;
    if (matrix.upper) {
      for (int64_t j = 0; j <= i; ++j) target[j] = load(matrix.Row(j)[i]);
    } else {
      const Real* const row = matrix.Row(i);
      for (int64_t j = 0; j <= i; ++j) target[j] = load(row[j]);
    }
  }
}

template <typename Root>
bool AllFinite(const Root* values, int64_t n) {
  // x * 0 is NaN exactly if x is not finite, and a sum with a NaN is NaN. So the loop needs no branch.
  Root sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += values[i] * Root{0};
  return sum == 0;
}

}  // namespace shampoo

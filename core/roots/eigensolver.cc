// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/eigensolver.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/blas/blas.h"
#include "core/blas/eigensolver_stages.h"
#include "core/roots/reflectors.h"

namespace shampoo {
namespace {

// The smallest matrix size at which separate calls of LAPACK's stages are faster than LAPACK's driver (blas::Syevd). Up
// to size 32, the reduction and the back-transformation of LAPACK process single columns instead of panels of columns.
constexpr int64_t kMinStagedSize = 33;

// Returns the block size of the reduction to tridiagonal form (blas::Sytrd). While the matrix fits into the cache,
// LAPACK's block size 32 is too large: 16 takes 8 to 12 % less time at n = 128 and 256, and the same time at 1024.
constexpr int64_t ReductionBlock(int64_t n) { return n < 384 ? 16 : 32; }

// Returns whether products of two elements are well within the range of type Root. If they are not, or if an element is
// NaN, the caller uses LAPACK's driver, which scales the elements and handles NaN. Without this scaling, the reduction
// would lose digits.
template <typename Root>
bool IsOfOrdinaryScale(int64_t n, const Root* a) {
  Root largest = 0;
  Root nan = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Root* const row = a + i * n;
    for (int64_t j = 0; j <= i; ++j) {
      const Root magnitude = std::fabs(row[j]);
      largest = magnitude > largest ? magnitude : largest;
      nan += row[j] * Root{0};
    }
  }
  const Root least = std::sqrt(std::numeric_limits<Root>::min() / std::numeric_limits<Root>::epsilon());
  return nan == 0 && largest >= least && largest <= 1 / (least * static_cast<Root>(n));
}

}  // namespace

template <typename Root>
int SolveInStages(int64_t n, Root* a, Root* l, Root* work, int32_t* ints, Tiles* tiles) {
  if (n < kMinStagedSize || !IsOfOrdinaryScale(n, a)) return blas::Syevd(n, a, l, work, ints);
  // `work` has EigenWork(n) = 2 n^2 + 64 n + 1 elements. It begins with v, a copy of the lower triangle of `a`. Sytrd
  // replaces this copy by reflectors. All stages use `rest` as work memory. e and tau are after the elements of `rest`
  // that Stedc uses. The eigenvectors are computed in `a`.
  Root* const v = work;
  Root* const rest = work + n * n;
  Root* const e = rest + blas::StedcWork(n);
  Root* const tau = e + n;
  for (int64_t i = 0; i < n; ++i) std::copy(a + i * n, a + i * n + i + 1, v + i * n);
  int info = blas::Sytrd(n, v, l, e, tau, ReductionBlock(n), rest);
  if (info == 0) info = blas::Stedc(n, l, e, a, rest, ints);
  if (info != 0) return info;
  const Reflectors<Root> q(n, v, tau, rest);
  q.Prepare(tiles);
  // The products in Apply() overwrite tau, which only Prepare() needs.
  q.Apply(a, rest + n * n, tiles);
  return 0;
}

template int SolveInStages<float>(int64_t, float*, float*, float*, int32_t*, Tiles*);
template int SolveInStages<double>(int64_t, double*, double*, double*, int32_t*, Tiles*);

}  // namespace shampoo

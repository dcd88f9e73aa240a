// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/fake/dense.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/blas/blas.h"
#include "core/blas/scratch.h"

namespace shampoo::cuda_fake {
namespace {

// Returns the scratch memory for BLAS. All calls share this memory, because only one call runs at a time.
blas::Scratch* TheScratch() {
  static blas::Scratch* const scratch = [] {
    auto* const made = new blas::Scratch;
    (void)blas::Scratch::Create({}, made);
    return made;
  }();
  return scratch;
}

// Rounds to the 10 fraction bits of TF32. Ties are rounded away from zero.
float RoundToTf32(float value) {
  if (!std::isfinite(value)) return value;
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x1000u) & ~0x1fffu;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

// Returns the matrix with rounded elements and without gaps between its columns.
std::vector<float> Rounded(const float* a, int64_t rows, int64_t columns, int64_t lda) {
  std::vector<float> out(static_cast<size_t>(rows * columns));
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) out[static_cast<size_t>(j * rows + i)] = RoundToTf32(a[j * lda + i]);
  }
  return out;
}

}  // namespace

template <typename Real>
void Multiply(const Product& how, const Real* a, int64_t lda, const Real* b, int64_t ldb, Real* c, int64_t ldc) {
  if constexpr (std::is_same_v<Real, float>) {
    if (how.tf32) {
      const int64_t a_rows = how.transpose_a ? how.k : how.m;
      const int64_t b_rows = how.transpose_b ? how.n : how.k;
      const std::vector<float> ra = Rounded(a, a_rows, how.transpose_a ? how.m : how.k, lda);
      const std::vector<float> rb = Rounded(b, b_rows, how.transpose_b ? how.k : how.n, ldb);
      Product plain = how;
      plain.tf32 = false;
      Multiply(plain, ra.data(), std::max<int64_t>(a_rows, 1), rb.data(), std::max<int64_t>(b_rows, 1), c, ldc);
      return;
    }
  }
  const auto beta = static_cast<Real>(how.beta);
  if (how.k == 0 || how.alpha == 0) {
    for (int64_t j = 0; j < how.n; ++j) {
      for (int64_t i = 0; i < how.m; ++i) c[j * ldc + i] = beta == 0 ? Real{0} : beta * c[j * ldc + i];
    }
    return;
  }
  const blas::ScratchUse use(TheScratch());
  // blas::Gemm takes row-major matrices, and reads the memory of a column-major matrix as the transpose of that matrix.
  // Therefore this call computes the transpose of C from the transposes of B and A.
  blas::Gemm(blas::Product<Real>{how.transpose_b, how.transpose_a, static_cast<Real>(how.alpha), beta}, how.n, how.m,
             how.k, b, ldb, a, lda, c, ldc);
}

template <typename Real>
bool IsFiniteTriangle(bool lower, int64_t n, const Real* a, int64_t lda) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = lower ? j : 0; i < (lower ? n : j + 1); ++i) {
      if (!std::isfinite(a[j * lda + i])) return false;
    }
  }
  return true;
}

template <typename Real>
int Decompose(bool vectors, bool lower, int64_t n, Real* a, int64_t lda, Real* w) {
  const auto size = [](int64_t count) { return static_cast<size_t>(count); };
  // Copies the stored triangle to both triangles of `dense`. The result is symmetric, so it is both row-major and
  // column-major.
  std::vector<Real> dense(size(n * n));
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < n; ++i) {
      const bool stored = lower ? i >= j : i <= j;
      dense[size(j * n + i)] = stored ? a[j * lda + i] : a[i * lda + j];
    }
  }
  std::vector<Real> work(size(blas::EigenWork(n)));
  std::vector<int32_t> int_work(size(blas::EigenIntWork(n)));
  int info = 0;
  {
    const blas::ScratchUse use(TheScratch());
    info = blas::Syevd(n, dense.data(), w, work.data(), int_work.data());
  }
  for (int64_t j = 0; j < n; ++j) {
    // A solver may return each eigenvector with either sign, so callers must not rely on the signs. This function
    // negates every second eigenvector, so that tests find callers that rely on the signs.
    const Real sign = j % 2 == 0 ? Real{1} : Real{-1};
    const Real spoiled = std::numeric_limits<Real>::quiet_NaN();
    for (int64_t i = 0; i < n; ++i) a[j * lda + i] = vectors ? sign * dense[size(j * n + i)] : spoiled;
  }
  return info;
}

template void Multiply(const Product&, const float*, int64_t, const float*, int64_t, float*, int64_t);
template void Multiply(const Product&, const double*, int64_t, const double*, int64_t, double*, int64_t);
template bool IsFiniteTriangle(bool, int64_t, const float*, int64_t);
template bool IsFiniteTriangle(bool, int64_t, const double*, int64_t);
template int Decompose(bool, bool, int64_t, float*, int64_t, float*);
template int Decompose(bool, bool, int64_t, double*, int64_t, double*);

}  // namespace shampoo::cuda_fake

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/blas/symmetric_product.h"

#include "core/base/round_up.h"
#include "core/blas/blas.h"
#include "core/blas/mirror.h"

namespace shampoo::blas {
namespace {

// If a square on the diagonal of the result C has at most this size, one call of GEMM computes the whole square. The
// elements above the diagonal are not needed, but GEMM is slower on smaller squares.
constexpr int64_t kProductLeaf = 48;
// Up to this size, computing all of C takes no longer than computing one triangle and copying it.
constexpr int64_t kLargestWhole = 64;

// Computes the elements of C that are in rows and columns [first, first + count), and not above the diagonal.
template <typename Real>
void LowerTriangle(int64_t n, int64_t first, int64_t count, Real alpha, const Real* a, const Real* b, Real beta,
                   Real* c) {
  const Product<Real> how{false, false, alpha, beta};
  if (count > kProductLeaf) {
    const int64_t half = RoundUp(count / 2, 16);
    LowerTriangle(n, first, half, alpha, a, b, beta, c);
    Gemm(how, count - half, half, n, a + (first + half) * n, n, b + first, n, c + (first + half) * n + first, n);
    LowerTriangle(n, first + half, count - half, alpha, a, b, beta, c);
    return;
  }
  Real square[kProductLeaf * kProductLeaf];
  Gemm({false, false, alpha, Real{0}}, count, count, n, a + first * n, n, b + first, n, square, count);
  for (int64_t i = 0; i < count; ++i) {
    Real* const row = c + (first + i) * n + first;
    const Real* const from = square + i * count;
    for (int64_t j = 0; j <= i; ++j) row[j] = beta == 0 ? from[j] : beta * row[j] + from[j];
  }
}

}  // namespace

template <typename Real>
void SymmetricProduct(int64_t n, Real alpha, const Real* a, const Real* b, Real beta, Real* c) {
  if (n <= kLargestWhole) return Gemm({false, false, alpha, beta}, n, n, n, a, n, b, n, c, n);
  LowerTriangle(n, 0, n, alpha, a, b, beta, c);
  Mirror(n, c);
}

template void SymmetricProduct<float>(int64_t, float, const float*, const float*, float, float*);
template void SymmetricProduct<double>(int64_t, double, const double*, const double*, double, double*);

}  // namespace shampoo::blas

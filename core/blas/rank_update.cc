// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/blas/rank_update.h"

#include <algorithm>
#include <string_view>

#include "core/base/kernels/kernels.h"
#include "core/blas/blas.h"

namespace shampoo::blas {
namespace {

// UpdateByGemm() divides C until the squares on its diagonal have at most this size. The size is large enough for a
// fast GEMM, and small enough that computing the elements above the diagonal costs little.
constexpr int64_t kLeaf = 32;
// Up to this size of C, Update() calls UpdateByGemm() if UsesGemmForSmallUpdates() returns true.
constexpr int64_t kLargestSmall = 128;

// The size of the squares that a large update is divided into. On these squares BLAS is nearly as fast as on the whole
// matrix. Smaller squares are slower: an update with n = 512 takes 7 % more time in squares of size 256.
constexpr int64_t kTile = 512;

template <typename Real>
RankUpdate<Real> DiagonalSquare(const RankUpdate<Real>& u, int64_t first, int64_t count) {
  RankUpdate<Real> square = u;
  square.n = count;
  square.a = u.transposed ? u.a + first : u.a + first * u.lda;
  square.c = u.c + first * u.ldc + first;
  return square;
}

// Updates the elements in rows [first, first + rows) and columns [left, left + columns) of C. All these elements must
// be below the diagonal.
template <typename Real>
void UpdateBelowDiagonal(const RankUpdate<Real>& u, int64_t first, int64_t rows, int64_t left, int64_t columns) {
  const Real* const a = u.transposed ? u.a + first : u.a + first * u.lda;
  const Real* const b = u.transposed ? u.a + left : u.a + left * u.lda;
  Gemm({u.transposed, !u.transposed, u.alpha, u.beta}, rows, columns, u.k, a, u.lda, b, u.lda,
       u.c + first * u.ldc + left, u.ldc);
}

template <typename Real>
void UpdateSmall(const RankUpdate<Real>& u) {
  static const bool by_gemm = UsesGemmForSmallUpdates();
  if (by_gemm && u.n <= kLargestSmall) {
    UpdateByGemm(u);
  } else {
    UpdateBySyrk(u);
  }
}

}  // namespace

bool UsesGemmForSmallUpdates() {
  const std::string_view kernel = KernelName();
  return kernel == "SkylakeX" || kernel == "Cooperlake" || kernel == "Sapphirerapids";
}

template <typename Real>
void UpdateBySyrk(const RankUpdate<Real>& u) {
  Syrk(u.transposed, u.n, u.k, u.alpha, u.a, u.lda, u.beta, u.c, u.ldc);
}

template <typename Real>
void UpdateByGemm(const RankUpdate<Real>& u) {
  if (u.n > kLeaf) {
    const int64_t half = (u.n / 2 + kLeaf - 1) / kLeaf * kLeaf;
    UpdateByGemm(DiagonalSquare(u, 0, half));
    UpdateBelowDiagonal(u, half, u.n - half, 0, half);
    UpdateByGemm(DiagonalSquare(u, half, u.n - half));
    return;
  }
  Real square[kLeaf * kLeaf];
  Gemm({u.transposed, !u.transposed, u.alpha, Real{0}}, u.n, u.n, u.k, u.a, u.lda, u.a, u.lda, square, u.n);
  const KernelsOf<Real>& kernels = BestKernels().Of<Real>();
  for (int64_t i = 0; i < u.n; ++i) {
    const Real* const product = square + i * u.n;
    Real* const row = u.c + i * u.ldc;
    if (u.beta == 0) {
      std::copy(product, product + i + 1, row);
    } else {
      kernels.accumulate(u.beta, row, Real{1}, product, i + 1);
    }
  }
}

template <typename Real>
void Update(const RankUpdate<Real>& u, Tiles* tiles) {
  const double products = static_cast<double>(u.n) * static_cast<double>(u.n) * static_cast<double>(u.k);
  if (u.n < 2 * kTile || products < double{kMinParallelProducts}) return UpdateSmall(u);
  const int64_t panels = u.n / kTile;  // a panel is kTile rows or columns of C; the last panel may be larger
  const auto first_of = [](int64_t panel) { return panel * kTile; };
  const auto count_of = [&](int64_t panel) { return panel + 1 < panels ? kTile : u.n - first_of(panel); };
  // The squares below the diagonal come first, because they take twice as long as the squares on the diagonal.
  const int64_t below = panels * (panels - 1) / 2;
  const auto tile = [&](int64_t i) {
    if (i >= below) return UpdateSmall(DiagonalSquare(u, first_of(i - below), count_of(i - below)));
    int64_t row = panels - 1;
    while (i >= row) i -= row--;
    UpdateBelowDiagonal(u, first_of(row), count_of(row), first_of(i), count_of(i));
  };
  ForEachTile(tiles, below + panels, tile);
}

template void Update<float>(const RankUpdate<float>&, Tiles*);
template void Update<double>(const RankUpdate<double>&, Tiles*);
template void UpdateBySyrk<float>(const RankUpdate<float>&);
template void UpdateBySyrk<double>(const RankUpdate<double>&);
template void UpdateByGemm<float>(const RankUpdate<float>&);
template void UpdateByGemm<double>(const RankUpdate<double>&);

}  // namespace shampoo::blas

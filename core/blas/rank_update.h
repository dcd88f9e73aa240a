// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/tiles.h"

namespace shampoo::blas {

// C <- alpha A A^T + beta C (A: n x k), or with transposed alpha A^T A + beta C (A: k x n), of which the lower triangle
// is read and written; what lies above the diagonal is not touched.
template <typename Real>
struct RankUpdate {
  bool transposed;
  int64_t n, k;
  Real alpha;
  const Real* a;
  int64_t lda;
  Real beta;
  Real* c;
  int64_t ldc;
};

// tiles: idle threads may take part; nullptr: none. The result depends on neither.
template <typename Real>
void Update(const RankUpdate<Real>& update, Tiles* tiles);

// Whether small rank updates are put together from squares of GEMM on this processor: where its kernels make GEMM so
// fast that SYRK's treatment of the diagonal shows.
bool UsesGemmForSmallUpdates();
// The same result by either way, for tests.
template <typename Real>
void UpdateBySyrk(const RankUpdate<Real>& update);
template <typename Real>
void UpdateByGemm(const RankUpdate<Real>& update);

}  // namespace shampoo::blas

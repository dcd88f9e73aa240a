// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/tiles.h"

namespace shampoo::blas {

// C <- alpha A A^T + beta C (A: n x k), or, if `transposed`, C <- alpha A^T A + beta C (A: k x n). Only the lower
// triangle of C is read and written.
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

// Computes a rank update. Idle threads may help through `tiles`, which may be nullptr. The result does not depend on
// the threads.
template <typename Real>
void Update(const RankUpdate<Real>& update, Tiles* tiles);

// Returns whether small rank updates are divided into squares, which GEMM computes, on this processor. On such a
// processor GEMM is so fast that the time that SYRK spends on the diagonal is noticeable.
bool UsesGemmForSmallUpdates();
// Compute a rank update with one of the two methods. For tests.
template <typename Real>
void UpdateBySyrk(const RankUpdate<Real>& update);
template <typename Real>
void UpdateByGemm(const RankUpdate<Real>& update);

}  // namespace shampoo::blas

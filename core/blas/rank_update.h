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
// which threads help.
template <typename Real>
void Update(const RankUpdate<Real>& update, Tiles* tiles);

// Returns whether Update() computes small rank updates with UpdateByGemm() on this processor. Returns true on
// processors with a very fast GEMM, where SYRK spends a noticeable part of its time on the diagonal of C.
bool UsesGemmForSmallUpdates();
// Compute a rank update: UpdateBySyrk() with one call of SYRK, UpdateByGemm() by dividing C into rectangles and
// computing each with GEMM. Declared here for tests.
template <typename Real>
void UpdateBySyrk(const RankUpdate<Real>& update);
template <typename Real>
void UpdateByGemm(const RankUpdate<Real>& update);

}  // namespace shampoo::blas

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::blas {

// C <- alpha A B + beta C for symmetric n x n matrices. A and B must commute; then A B is symmetric. If n is above 64,
// the lower triangle of C is computed and then copied to the upper triangle. For n = 128, this takes a fifth less time
// than a full product. If n is at most 64, a full product takes no longer, so all of C is computed. C is then symmetric
// only up to rounding.
template <typename Real>
void SymmetricProduct(int64_t n, Real alpha, const Real* a, const Real* b, Real beta, Real* c);

}  // namespace shampoo::blas

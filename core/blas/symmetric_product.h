// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::blas {

// C <- alpha A B + beta C of n x n matrices, for a product that is symmetric: A and B are symmetric and commute, and so
// is C. From order 65 on one triangle is computed and mirrored, which takes a fifth less time than a product at order
// 128. Up to 64, where that would gain nothing, it is the whole product, symmetric to rounding.
template <typename Real>
void SymmetricProduct(int64_t n, Real alpha, const Real* a, const Real* b, Real beta, Real* c);

}  // namespace shampoo::blas

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::blas {

// C <- alpha A B + beta C for symmetric n x n matrices. A and B must commute; then A B is symmetric. From n = 65 on,
// one triangle is computed and copied to the other. At n = 128, this takes a fifth less time than a full product. Up to
// n = 64 it would save no time, so the full product is computed; C is then symmetric only up to rounding.
template <typename Real>
void SymmetricProduct(int64_t n, Real alpha, const Real* a, const Real* b, Real beta, Real* c);

}  // namespace shampoo::blas

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// What cuBLAS and cuSOLVER compute, of one matrix at a time and column-major, by the BLAS of the host.
namespace shampoo::cuda_fake {

struct Product {
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  double alpha, beta;
  bool tf32;
};

template <typename Real>
void Multiply(const Product& how, const Real* a, int64_t lda, const Real* b, int64_t ldb, Real* c, int64_t ldc);

// LAPACK's info. vectors: they replace the matrix, else it is spoiled.
template <typename Real>
int Decompose(bool vectors, bool lower, int64_t n, Real* a, int64_t lda, Real* w);

template <typename Real>
bool IsFiniteTriangle(bool lower, int64_t n, const Real* a, int64_t lda);

}  // namespace shampoo::cuda_fake

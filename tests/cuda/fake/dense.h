// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// The computations of cuBLAS and cuSOLVER for one column-major matrix at a time, with the host's BLAS.
namespace shampoo::cuda_fake {

struct Product {
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  double alpha, beta;
  bool tf32;
};

template <typename Real>
void Multiply(const Product& how, const Real* a, int64_t lda, const Real* b, int64_t ldb, Real* c, int64_t ldc);

// Returns LAPACK's info. vectors: the eigenvectors replace the matrix; otherwise the matrix is overwritten with
// garbage.
template <typename Real>
int Decompose(bool vectors, bool lower, int64_t n, Real* a, int64_t lda, Real* w);

template <typename Real>
bool IsFiniteTriangle(bool lower, int64_t n, const Real* a, int64_t lda);

}  // namespace shampoo::cuda_fake

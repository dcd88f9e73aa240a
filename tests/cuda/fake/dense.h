// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Products and eigendecompositions for the fake cuBLAS and cuSOLVER. The library's own BLAS computes them on the CPU.
// Matrices are column-major. Each call computes one product or one eigendecomposition, not a batch.
namespace shampoo::cuda_fake {

struct Product {
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  double alpha, beta;
  bool tf32;  // whether to round the elements of A and B to TF32 before the product
};

// Computes C = alpha op(A) op(B) + beta C, where C is m x n, op(A) is m x k and op(B) is k x n. op(A) is A^T if
// transpose_a is true, otherwise A. The same holds for op(B) and transpose_b.
template <typename Real>
void Multiply(const Product& how, const Real* a, int64_t lda, const Real* b, int64_t ldb, Real* c, int64_t ldc);

// Writes the eigenvalues of `a` to `w`. If `vectors` is true, replaces `a` by its eigenvectors, otherwise by NaN. Reads
// only one triangle of `a`: the lower one if `lower` is true, otherwise the upper one. Returns LAPACK's info: 0 after
// success.
template <typename Real>
int Decompose(bool vectors, bool lower, int64_t n, Real* a, int64_t lda, Real* w);

// Returns whether one triangle of `a` is finite: the lower triangle if `lower` is true, otherwise the upper triangle.
template <typename Real>
bool IsFiniteTriangle(bool lower, int64_t n, const Real* a, int64_t lda);

}  // namespace shampoo::cuda_fake

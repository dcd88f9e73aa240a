// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::blas {

// Thin wrappers of the routines of BLAS and LAPACK for the stages of an eigensolver, overloaded for float and double.
// Matrices are row-major. Functions that return an int return LAPACK's info: 0 on success. A thread that calls any
// function of this file must hold a ScratchUse (scratch.h).

// Reduces A to tridiagonal form: A = Q T Q^T with Q = H(n-2) ... H(1) H(0) and H(i) = I - tau[i] v v^T. Each H(i)
// has its own v: v[j] is stored in a[(i + 1) * n + j] for j < i, v[i] is 1, and the later elements are 0. Reads the
// lower triangle of A.
//   d, e   the diagonal of T (n elements) and its off-diagonal (n - 1 elements)
//   tau    n - 1 elements
//   block  the number of columns that are reduced before the other columns are updated, at most 32, which
//          is LAPACK's block size
//   work   block * n elements
int Sytrd(int64_t n, float* a, float* d, float* e, float* tau, int64_t block, float* work);
int Sytrd(int64_t n, double* a, double* d, double* e, double* tau, int64_t block, double* work);

// Computes the eigendecomposition of a tridiagonal matrix by divide and conquer. On success d holds the eigenvalues in
// ascending order, and row i of z (n x n) holds the eigenvector of d[i]. e is destroyed. work: StedcWork(n) elements.
// int_work: StedcIntWork(n) elements.
int Stedc(int64_t n, float* d, float* e, float* z, float* work, int32_t* int_work);
int Stedc(int64_t n, double* d, double* e, double* z, double* work, int32_t* int_work);
constexpr int64_t StedcWork(int64_t n) { return 1 + 4 * n + n * n; }
constexpr int64_t StedcIntWork(int64_t n) { return 3 + 5 * n; }

// Replaces A (n x n) by the orthogonal factor Q of A = Q R, computed by Householder reflections. Q is orthogonal even
// if A does not have full rank. tau: n elements. work: OrthogonalizeWork(n) elements.
int Orthogonalize(int64_t n, float* a, float* tau, float* work);
int Orthogonalize(int64_t n, double* a, double* tau, double* work);
constexpr int64_t OrthogonalizeWork(int64_t n) { return 32 * n; }

// B (k x n) <- (I + L)^-T B. L is the strictly lower triangle of `l` (k x k). ldb: the distance between the starts of
// two rows of B, in elements.
void SolveUnitTransposed(int64_t k, int64_t n, const float* l, float* b, int64_t ldb);
void SolveUnitTransposed(int64_t k, int64_t n, const double* l, double* b, int64_t ldb);

}  // namespace shampoo::blas

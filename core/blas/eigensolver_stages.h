// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::blas {

// The parts of an eigensolver, as thin overloads. Row-major, the lower triangle of `a` is read; infos are LAPACK's. As
// in blas.h every calling thread must be inside a ScratchUse.

// A = Q T Q^T with T tridiagonal: d its diagonal (n), e what is beside it (n - 1), Q = H(n-2) ... H(1) H(0), each
// H(i) = I - tau[i] v v^T. v[j] for j < i lies at a[(i + 1) * n + j], v[i] is 1, and the rest is 0.
// block: columns that are reduced before the rest is updated, at most LAPACK's own 32; work: block * n elements.
int Sytrd(int64_t n, float* a, float* d, float* e, float* tau, int64_t block, float* work);
int Sytrd(int64_t n, double* a, double* d, double* e, double* tau, int64_t block, double* work);

// Eigendecomposition of a tridiagonal matrix by divide and conquer: d <- eigenvalues in rising order, row i of z (n x
// n) the eigenvector of d[i]; e is destroyed. work: StedcWork elements, int_work: StedcIntWork.
int Stedc(int64_t n, float* d, float* e, float* z, float* work, int32_t* int_work);
int Stedc(int64_t n, double* d, double* e, double* z, double* work, int32_t* int_work);
constexpr int64_t StedcWork(int64_t n) { return 1 + 4 * n + n * n; }
constexpr int64_t StedcIntWork(int64_t n) { return 3 + 5 * n; }

// B (k x n) <- (I + L)^-T B with L the part of `l` (k x k) below its diagonal.
void SolveUnitTransposed(int64_t k, int64_t n, const float* l, float* b, int64_t ldb);
void SolveUnitTransposed(int64_t k, int64_t n, const double* l, double* b, int64_t ldb);

}  // namespace shampoo::blas

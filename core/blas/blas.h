// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace shampoo::blas {

// Thin wrappers of BLAS and LAPACK, overloaded for float and double. Matrices are row-major. Extents must be below
// 2^31; the plan checks this limit. A thread that calls one of these functions must hold a ScratchUse (scratch.h).

// C <- alpha A A^T + beta C (A: n x k), or, if `transposed`, C <- alpha A^T A + beta C (A: k x n). Reads and writes
// only the lower triangle of C (n x n).
void Syrk(bool transposed, int64_t n, int64_t k, float alpha, const float* a, int64_t lda, float beta, float* c,
          int64_t ldc);
void Syrk(bool transposed, int64_t n, int64_t k, double alpha, const double* a, int64_t lda, double beta, double* c,
          int64_t ldc);

// C (m x n) <- alpha A B + beta C. If transpose_a, A is stored as its transpose (k x m); if transpose_b, B is stored as
// its transpose (n x k).
template <typename Real>
struct Product {
  bool transpose_a, transpose_b;
  Real alpha, beta;
};
void Gemm(const Product<float>& how, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
          int64_t ldb, float* c, int64_t ldc);
void Gemm(const Product<double>& how, int64_t m, int64_t n, int64_t k, const double* a, int64_t lda, const double* b,
          int64_t ldb, double* c, int64_t ldc);

// C (m x n) <- X B (X: m x m), or, if `right`, C <- B X (X: n x n). X is symmetric; only its upper triangle is read.
void Symm(bool right, int64_t m, int64_t n, const float* x, int64_t ldx, const float* b, int64_t ldb, float* c,
          int64_t ldc);
void Symm(bool right, int64_t m, int64_t n, const double* x, int64_t ldx, const double* b, int64_t ldb, double* c,
          int64_t ldc);

// C (m x n) <- B X. X is symmetric; only its lower triangle is read.
void SymmLower(int64_t m, int64_t n, const float* x, int64_t ldx, const float* b, int64_t ldb, float* c, int64_t ldc);

// C <- alpha (A^T B + B^T A) + C (A and B: k x n). Reads and writes only the lower triangle of C (n x n).
void Syr2k(int64_t n, int64_t k, float alpha, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
           int64_t ldc);

// C (m x n) <- A (m x k) B (k x n).
template <typename Real>
void Gemm(int64_t m, int64_t n, int64_t k, const Real* a, int64_t lda, const Real* b, int64_t ldb, Real* c,
          int64_t ldc) {
  Gemm(Product<Real>{false, false, Real{1}, Real{0}}, m, n, k, a, lda, b, ldb, c, ldc);
}

// y <- A x, or, if `transposed`, y <- A^T x. A is n x n with both triangles stored.
void Gemv(bool transposed, int64_t n, const float* a, const float* x, float* y);
void Gemv(bool transposed, int64_t n, const double* a, const double* x, double* y);
// y <- A x. A is symmetric. If `upper`, only its upper triangle is read, otherwise only its lower triangle.
void Symv(bool upper, int64_t n, const float* a, int64_t lda, const float* x, float* y);
void Symv(bool upper, int64_t n, const double* a, int64_t lda, const double* x, double* y);

// Return the sizes of the workspaces `work` (in elements) and `int_work` (in integers) of the eigensolvers below, for
// matrices up to n x n.
int64_t EigenWork(int64_t n);
int64_t EigenIntWork(int64_t n);
// Compute the eigendecomposition of a symmetric matrix. Only the lower triangle of `a` is read. On success w holds the
// eigenvalues in ascending order, and row i of `a` holds the eigenvector of w[i]. Return 0 on success, otherwise
// LAPACK's info. Syevr returns 1 if LAPACK reports success but finds fewer than n eigenvalues.
//   Syevd  divide and conquer
//   Syevr  relatively robust representations
//   Syev   implicit QR
int Syevd(int64_t n, float* a, float* w, float* work, int32_t* int_work);
int Syevd(int64_t n, double* a, double* w, double* work, int32_t* int_work);
int Syevr(int64_t n, double* a, double* w, double* work, int32_t* int_work);
int Syev(int64_t n, double* a, double* w, double* work);

// Returns the size of the workspace of Gesvd, in elements.
int64_t SvdWork(int64_t m, int64_t n);
// Computes the reduced singular value decomposition A = U diag(s) V^T of an m x n matrix, with k = min(m, n): U is
// m x k, V^T is k x n, and s has k elements in descending order. Destroys A. Returns LAPACK's info: 0 on success.
int Gesvd(int64_t m, int64_t n, double* a, double* u, double* s, double* vt, double* work);

// For matrices up to this size, the workspace size of the eigensolvers fits in the 32-bit integers of LAPACK.
inline constexpr int64_t kLargestEigenproblem = 32750;

// Checks that several threads, including those of the application, may call BLAS at the same time. The OpenBLAS that is
// linked into the library allows this, because scratch.cc replaces its allocator. If the library is built with the
// CMake option SHAMPOO_SYSTEM_BLAS, the OpenBLAS of the system may be a serial build. The check then fails, because all
// callers of a serial build share scratch memory.
Status CheckThreads();

// The BLAS in use: its name and version, such as "OpenBLAS 0.3.21", and its kernel for this CPU, such as "SkylakeX".
struct Identity {
  std::string library;
  std::string kernel;
  bool is_private;  // true: linked into libshampoo; false: the BLAS of the system
};
Identity Identify();
const char* KernelName();  // returns Identity::kernel

}  // namespace shampoo::blas

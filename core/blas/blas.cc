// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/blas/blas.h"

#include <cblas.h>
#include <lapacke.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/blas/int.h"

namespace shampoo::blas {
namespace {

// Returns whether ssymv and dsymv read nothing beyond the ends of A and y. OpenBLAS's kernels for the processors in
// kReadBeyond read past these ends, where memory may not be mapped.
bool SymvStaysInBounds() {
  static const bool result = [] {
    const std::string_view kernel = openblas_get_corename();
    constexpr std::string_view kReadBeyond[] = {
        "Katmai", "Coppermine", "Northwood", "Prescott", "Banias", "Core2",     "Penryn",       "Dunnington",
        "Atom",   "Nano",       "Athlon",    "Opteron",  "Bobcat", "Barcelona", "Opteron_SSE3", "Piledriver"};
    return std::find(std::begin(kReadBeyond), std::end(kReadBeyond), kernel) == std::end(kReadBeyond);
  }();
  return result;
}

}  // namespace

void Syrk(bool transposed, int64_t n, int64_t k, float alpha, const float* a, int64_t lda, float beta, float* c,
          int64_t ldc) {
  cblas_ssyrk(CblasRowMajor, CblasLower, transposed ? CblasTrans : CblasNoTrans, Int(n), Int(k), alpha, a, Int(lda),
              beta, c, Int(ldc));
}

void Syrk(bool transposed, int64_t n, int64_t k, double alpha, const double* a, int64_t lda, double beta, double* c,
          int64_t ldc) {
  cblas_dsyrk(CblasRowMajor, CblasLower, transposed ? CblasTrans : CblasNoTrans, Int(n), Int(k), alpha, a, Int(lda),
              beta, c, Int(ldc));
}

void Gemm(const Product<float>& how, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
          int64_t ldb, float* c, int64_t ldc) {
  cblas_sgemm(CblasRowMajor, how.transpose_a ? CblasTrans : CblasNoTrans, how.transpose_b ? CblasTrans : CblasNoTrans,
              Int(m), Int(n), Int(k), how.alpha, a, Int(lda), b, Int(ldb), how.beta, c, Int(ldc));
}

void Gemm(const Product<double>& how, int64_t m, int64_t n, int64_t k, const double* a, int64_t lda, const double* b,
          int64_t ldb, double* c, int64_t ldc) {
  cblas_dgemm(CblasRowMajor, how.transpose_a ? CblasTrans : CblasNoTrans, how.transpose_b ? CblasTrans : CblasNoTrans,
              Int(m), Int(n), Int(k), how.alpha, a, Int(lda), b, Int(ldb), how.beta, c, Int(ldc));
}

void Symm(bool right, int64_t m, int64_t n, const float* x, int64_t ldx, const float* b, int64_t ldb, float* c,
          int64_t ldc) {
  cblas_ssymm(CblasRowMajor, right ? CblasRight : CblasLeft, CblasUpper, Int(m), Int(n), 1.0f, x, Int(ldx), b, Int(ldb),
              0.0f, c, Int(ldc));
}

void Symm(bool right, int64_t m, int64_t n, const double* x, int64_t ldx, const double* b, int64_t ldb, double* c,
          int64_t ldc) {
  cblas_dsymm(CblasRowMajor, right ? CblasRight : CblasLeft, CblasUpper, Int(m), Int(n), 1.0, x, Int(ldx), b, Int(ldb),
              0.0, c, Int(ldc));
}

void SymmLower(int64_t m, int64_t n, const float* x, int64_t ldx, const float* b, int64_t ldb, float* c, int64_t ldc) {
  cblas_ssymm(CblasRowMajor, CblasRight, CblasLower, Int(m), Int(n), 1.0f, x, Int(ldx), b, Int(ldb), 0.0f, c, Int(ldc));
}

void Syr2k(int64_t n, int64_t k, float alpha, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
           int64_t ldc) {
  cblas_ssyr2k(CblasRowMajor, CblasLower, CblasTrans, Int(n), Int(k), alpha, a, Int(lda), b, Int(ldb), 1.0f, c,
               Int(ldc));
}

void Gemv(bool transposed, int64_t n, const float* a, const float* x, float* y) {
  cblas_sgemv(CblasRowMajor, transposed ? CblasTrans : CblasNoTrans, Int(n), Int(n), 1.0f, a, Int(n), x, 1, 0.0f, y, 1);
}

void Gemv(bool transposed, int64_t n, const double* a, const double* x, double* y) {
  cblas_dgemv(CblasRowMajor, transposed ? CblasTrans : CblasNoTrans, Int(n), Int(n), 1.0, a, Int(n), x, 1, 0.0, y, 1);
}

void Symv(bool upper, int64_t n, const float* a, int64_t lda, const float* x, float* y) {
  const CBLAS_UPLO triangle = upper ? CblasUpper : CblasLower;
  if (SymvStaysInBounds()) {
    cblas_ssymv(CblasRowMajor, triangle, Int(n), 1.0f, a, Int(lda), x, 1, 0.0f, y, 1);
  } else {
    cblas_ssymm(CblasRowMajor, CblasLeft, triangle, Int(n), 1, 1.0f, a, Int(lda), x, 1, 0.0f, y, 1);
  }
}

void Symv(bool upper, int64_t n, const double* a, int64_t lda, const double* x, double* y) {
  const CBLAS_UPLO triangle = upper ? CblasUpper : CblasLower;
  if (SymvStaysInBounds()) {
    cblas_dsymv(CblasRowMajor, triangle, Int(n), 1.0, a, Int(lda), x, 1, 0.0, y, 1);
  } else {
    cblas_dsymm(CblasRowMajor, CblasLeft, triangle, Int(n), 1, 1.0, a, Int(lda), x, 1, 0.0, y, 1);
  }
}

// EigenWork() and EigenIntWork() suffice for Syevd, Syevr and Syev. LAPACK's documentation requires the following
// numbers of elements and of integers:
//   ?syevd  1 + 6 n + 2 n^2 and 3 + 5 n
//   dsyevr  26 n and 10 n; Syevr also needs n^2 elements for the eigenvectors and 2 n integers for the ranges of their
//           nonzero elements
//   dsyev   3 n - 1
// With 34 n elements, the reduction to tridiagonal form uses its full block size. A workspace query of a routine
// therefore returns at most 34 n elements, or the number in this list if it is larger. EigenWork() returns more than
// both.
int64_t EigenWork(int64_t n) { return 1 + 64 * n + 2 * n * n; }
int64_t EigenIntWork(int64_t n) { return 3 + 12 * n; }

// A row-major lower triangle is a column-major upper triangle. LAPACK returns eigenvectors as columns of a column-major
// matrix, which are the rows of a row-major matrix.
int Syevd(int64_t n, float* a, float* w, float* work, int32_t* int_work) {
  return LAPACKE_ssyevd_work(LAPACK_COL_MAJOR, 'V', 'U', Int(n), a, Int(n), w, work, Int(EigenWork(n)), int_work,
                             Int(3 + 5 * n));
}

int Syevd(int64_t n, double* a, double* w, double* work, int32_t* int_work) {
  return LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', 'U', Int(n), a, Int(n), w, work, Int(EigenWork(n)), int_work,
                             Int(3 + 5 * n));
}

int Syevr(int64_t n, double* a, double* w, double* work, int32_t* int_work) {
  double* const vectors = work;
  double* const rest = work + n * n;
  int32_t* const support = int_work;
  lapack_int found = 0;
  const int info =
      LAPACKE_dsyevr_work(LAPACK_COL_MAJOR, 'V', 'A', 'U', Int(n), a, Int(n), 0.0, 0.0, 0, 0, 0.0, &found, w, vectors,
                          Int(n), support, rest, Int(EigenWork(n) - n * n), int_work + 2 * n, Int(10 * n));
  if (info != 0) return info;
  if (found != n) return 1;
  std::copy(vectors, vectors + n * n, a);
  return 0;
}

int Syev(int64_t n, double* a, double* w, double* work) {
  return LAPACKE_dsyev_work(LAPACK_COL_MAJOR, 'V', 'U', Int(n), a, Int(n), w, work, Int(EigenWork(n)));
}

// LAPACK's documentation requires max(3 k + max(m, n), 5 k) elements with k = min(m, n). A larger workspace allows
// blocked algorithms.
int64_t SvdWork(int64_t m, int64_t n) { return 64 * (m + n) + 5 * std::min(m, n); }

// In column-major order, `a` is A^T = V diag(s) U^T. The call therefore exchanges m and n, and U and V^T.
int Gesvd(int64_t m, int64_t n, double* a, double* u, double* s, double* vt, double* work) {
  const int64_t k = std::min(m, n);
  return LAPACKE_dgesvd_work(LAPACK_COL_MAJOR, 'S', 'S', Int(n), Int(m), a, Int(n), s, vt, Int(n), u, Int(k), work,
                             Int(SvdWork(m, n)));
}

#ifdef SHAMPOO_SYSTEM_BLAS
Status CheckThreads() {
  if (openblas_get_parallel() != OPENBLAS_SEQUENTIAL) return {};
  return Unsupported(
      "the OpenBLAS of this system is the serial build, which gives wrong results when several threads call it: "
      "install "
      "the threaded build (libopenblas0-pthread), or build libshampoo with SHAMPOO_SYSTEM_BLAS=OFF");
}
#else
Status CheckThreads() { return {}; }
#endif

const char* KernelName() { return openblas_get_corename(); }

Identity Identify() {
  // An example of a result is "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ... Zen SINGLE_THREADED".
  const std::string config = openblas_get_config();
  const size_t name_end = config.find(' ');
  const size_t version_end = name_end == std::string::npos ? name_end : config.find(' ', name_end + 1);
#ifdef SHAMPOO_SYSTEM_BLAS
  constexpr bool kPrivate = false;
#else
  constexpr bool kPrivate = true;
#endif
  return {config.substr(0, version_end), openblas_get_corename(), kPrivate};
}

}  // namespace shampoo::blas

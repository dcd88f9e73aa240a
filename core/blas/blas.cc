// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/blas/blas.h"

#include <cblas.h>
#include <lapacke.h>

namespace shampoo::blas {
namespace {
int Int(int64_t extent) { return static_cast<int>(extent); }
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

void Gemm(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
          int64_t ldc) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, Int(m), Int(n), Int(k), 1.0f, a, Int(lda), b, Int(ldb), 0.0f,
              c, Int(ldc));
}

void Gemm(int64_t m, int64_t n, int64_t k, const double* a, int64_t lda, const double* b, int64_t ldb, double* c,
          int64_t ldc) {
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, Int(m), Int(n), Int(k), 1.0, a, Int(lda), b, Int(ldb), 0.0, c,
              Int(ldc));
}

void Gemv(int64_t n, const float* a, const float* x, float* y) {
  cblas_sgemv(CblasRowMajor, CblasNoTrans, Int(n), Int(n), 1.0f, a, Int(n), x, 1, 0.0f, y, 1);
}

void Gemv(int64_t n, const double* a, const double* x, double* y) {
  cblas_dgemv(CblasRowMajor, CblasNoTrans, Int(n), Int(n), 1.0, a, Int(n), x, 1, 0.0, y, 1);
}

// The sizes that LAPACK's documentation of ssyevd names for eigenvectors wanted; the block size of the reduction to
// tridiagonal form asks for more than that only at small n, hence the 64 n.
int64_t SyevdWork(int64_t n) { return 1 + 64 * n + 2 * n * n; }
int64_t SyevdIntWork(int64_t n) { return 3 + 5 * n; }

// Row-major lower is column-major upper; the eigenvectors come back as columns of a column-major matrix: as our rows.
int Syevd(int64_t n, float* a, float* w, float* work, int32_t* int_work) {
  return LAPACKE_ssyevd_work(LAPACK_COL_MAJOR, 'V', 'U', Int(n), a, Int(n), w, work, Int(SyevdWork(n)), int_work,
                             Int(SyevdIntWork(n)));
}

int Syevd(int64_t n, double* a, double* w, double* work, int32_t* int_work) {
  return LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', 'U', Int(n), a, Int(n), w, work, Int(SyevdWork(n)), int_work,
                             Int(SyevdIntWork(n)));
}

#ifdef SHAMPOO_SYSTEM_BLAS
Status CheckThreads() {
  if (openblas_get_parallel() != OPENBLAS_SEQUENTIAL) return {};
  return Unsupported(
      "the OpenBLAS of this system is its serial build, in which several threads at a time give wrong results: install "
      "the one with threads (libopenblas0-pthread), or build with SHAMPOO_SYSTEM_BLAS=OFF");
}
#else
Status CheckThreads() { return {}; }
#endif

Identity Identify() {
  // openblas_get_config: "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ... Zen SINGLE_THREADED"
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

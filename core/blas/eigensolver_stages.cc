// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/blas/eigensolver_stages.h"

#include <cblas.h>
#include <lapacke.h>

#include "core/blas/int.h"

namespace shampoo::blas {

// A row-major lower triangle is a column-major upper triangle, and a column-major column is a row-major row. Sytrd()
// passes block * n to LAPACK as the size of the workspace, from which LAPACK derives the block size.
int Sytrd(int64_t n, float* a, float* d, float* e, float* tau, int64_t block, float* work) {
  return LAPACKE_ssytrd_work(LAPACK_COL_MAJOR, 'U', Int(n), a, Int(n), d, e, tau, work, Int(block * n));
}

int Sytrd(int64_t n, double* a, double* d, double* e, double* tau, int64_t block, double* work) {
  return LAPACKE_dsytrd_work(LAPACK_COL_MAJOR, 'U', Int(n), a, Int(n), d, e, tau, work, Int(block * n));
}

int Stedc(int64_t n, float* d, float* e, float* z, float* work, int32_t* int_work) {
  return LAPACKE_sstedc_work(LAPACK_COL_MAJOR, 'I', Int(n), d, e, z, Int(n), work, Int(StedcWork(n)), int_work,
                             Int(StedcIntWork(n)));
}

int Stedc(int64_t n, double* d, double* e, double* z, double* work, int32_t* int_work) {
  return LAPACKE_dstedc_work(LAPACK_COL_MAJOR, 'I', Int(n), d, e, z, Int(n), work, Int(StedcWork(n)), int_work,
                             Int(StedcIntWork(n)));
}

// `a` is the row-major matrix A = Q R. In column-major order, `a` is A^T = R^T Q^T, which is an LQ factorization.
// LAPACK replaces `a` by the column-major matrix Q^T, which is Q in row-major order.
int Orthogonalize(int64_t n, float* a, float* tau, float* work) {
  const auto size = Int(OrthogonalizeWork(n));
  const int info = LAPACKE_sgelqf_work(LAPACK_COL_MAJOR, Int(n), Int(n), a, Int(n), tau, work, size);
  if (info != 0) return info;
  return LAPACKE_sorglq_work(LAPACK_COL_MAJOR, Int(n), Int(n), Int(n), a, Int(n), tau, work, size);
}

int Orthogonalize(int64_t n, double* a, double* tau, double* work) {
  const auto size = Int(OrthogonalizeWork(n));
  const int info = LAPACKE_dgelqf_work(LAPACK_COL_MAJOR, Int(n), Int(n), a, Int(n), tau, work, size);
  if (info != 0) return info;
  return LAPACKE_dorglq_work(LAPACK_COL_MAJOR, Int(n), Int(n), Int(n), a, Int(n), tau, work, size);
}

void SolveUnitTransposed(int64_t k, int64_t n, const float* l, float* b, int64_t ldb) {
  cblas_strsm(CblasRowMajor, CblasLeft, CblasLower, CblasTrans, CblasUnit, Int(k), Int(n), 1.0f, l, Int(k), b,
              Int(ldb));
}

void SolveUnitTransposed(int64_t k, int64_t n, const double* l, double* b, int64_t ldb) {
  cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasTrans, CblasUnit, Int(k), Int(n), 1.0, l, Int(k), b, Int(ldb));
}

}  // namespace shampoo::blas

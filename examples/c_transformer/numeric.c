// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "numeric.h"

#include <cblas.h>

#include "check.h"

void multiply(Form a_form, Form b_form, int m, int n, int k, real alpha, const real* a, int a_stride, const real* b,
              int b_stride, real beta, real* c, int c_stride) {
  const enum CBLAS_TRANSPOSE a_how = a_form == kAsIs ? CblasNoTrans : CblasTrans;
  const enum CBLAS_TRANSPOSE b_how = b_form == kAsIs ? CblasNoTrans : CblasTrans;
  if (sizeof(real) == sizeof(double)) {
    cblas_dgemm(CblasRowMajor, a_how, b_how, m, n, k, (double)alpha, (const double*)(const void*)a, a_stride,
                (const double*)(const void*)b, b_stride, (double)beta, (double*)(void*)c, c_stride);
  } else {
    cblas_sgemm(CblasRowMajor, a_how, b_how, m, n, k, (float)alpha, (const float*)(const void*)a, a_stride,
                (const float*)(const void*)b, b_stride, (float)beta, (float*)(void*)c, c_stride);
  }
}

void multiply_on_calling_threads(int threads) {
  // A serial build of OpenBLAS has one scratch memory without a lock: concurrent products overwrite each other's data.
  if (threads > 1 && openblas_get_parallel() == OPENBLAS_SEQUENTIAL) {
    fail(
        "the BLAS is a serial build, which gives wrong results when several threads call it: %s; expected an OpenBLAS "
        "with threads, because %d threads call it. Install libopenblas-pthread-dev (Debian, Ubuntu), or run train_text "
        "with --threads 1",
        openblas_get_config(), threads);
  }
  openblas_set_num_threads(1);
}

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublas_v2.h>

#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// Options of a matrix product; see Gemm().
struct GemmOptions {
  // The dtype of all three matrices: kF32, kF64 or kBf16. Sums are computed in the same dtype, except that kBf16 uses
  // float32.
  Dtype dtype = Dtype::kF32;
  bool tf32 = false;  // for kF32 only: round A and B to TF32
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  double beta = 0;  // 0: C is written without being read
};

// A batch of matrices. Rows are `ld` elements apart, and matrices are `stride` elements apart.
struct GemmInput {
  const void* data;
  int64_t ld;
  int64_t stride;
};
struct GemmOutput {
  void* data;
  int64_t ld;
  int64_t stride;
};

// Computes C = alpha op(A) op(B) + beta C for every matrix of a batch. op transposes A if options.transpose_a is set,
// and B if options.transpose_b is set. All matrices are row-major; op(A) is m x k and op(B) is k x n. The handle's
// pointer mode must be CUBLAS_POINTER_MODE_HOST.
Status Gemm(cublasHandle_t handle, const GemmOptions& options, int64_t m, int64_t n, int64_t k, const GemmInput& a,
            const GemmInput& b, const GemmOutput& c, int64_t batch);

// The smallest size of C at which LowerProductWithTransposed leaves some elements above the diagonal unchanged.
inline constexpr int64_t kLowerProductPanelsFrom = 512;
// Computes the lower triangle of C = alpha op(A) op(A)^T + beta C for every matrix of a batch, where op(A) is d x k.
// Also writes elements above the diagonal: all of them if d is below kLowerProductPanelsFrom, otherwise some of them.
// options.transpose_a selects op; options.transpose_b is ignored.
Status LowerProductWithTransposed(cublasHandle_t handle, GemmOptions options, int64_t d, int64_t k, const GemmInput& a,
                                  const GemmOutput& c, int64_t batch);

}  // namespace shampoo::cuda

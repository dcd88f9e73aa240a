// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/gemm.h"

#include <algorithm>
#include <limits>

#include "core/backend/cuda/plugin/cuda_call.h"

namespace shampoo::cuda {

Status Gemm(cublasHandle_t handle, const GemmOptions& options, int64_t m, int64_t n, int64_t k, const GemmInput& a,
            const GemmInput& b, const GemmOutput& c, int64_t batch) {
  if (m == 0 || n == 0 || batch == 0) return Status();
  if (std::max({m, n, k, batch, a.ld, b.ld, c.ld}) > std::numeric_limits<int32_t>::max()) {
    return Unsupported("a product of ", batch, " matrices of ", m, " x ", k, " and ", k, " x ", n,
                       " is too large for cuBLAS");
  }
  const bool f64 = options.dtype == Dtype::kF64;
  const cudaDataType_t type = f64 ? CUDA_R_64F : CUDA_R_32F;
  const cublasComputeType_t compute = f64            ? CUBLAS_COMPUTE_64F
                                      : options.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                     : CUBLAS_COMPUTE_32F;
  const auto alpha32 = static_cast<float>(options.alpha);
  const auto beta32 = static_cast<float>(options.beta);
  const void* const alpha = f64 ? static_cast<const void*>(&options.alpha) : &alpha32;
  const void* const beta = f64 ? static_cast<const void*>(&options.beta) : &beta32;
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const auto narrow = [](int64_t number) { return static_cast<int>(number); };
  // A row-major matrix is its transpose to cuBLAS: C^T = op(B)^T op(A)^T.
  SHAMPOO_CUDA_TRY(cublasGemmStridedBatchedEx(handle, op(options.transpose_b), op(options.transpose_a), narrow(n),
                                              narrow(m), narrow(k), alpha, b.data, type, narrow(b.ld), b.stride, a.data,
                                              type, narrow(a.ld), a.stride, beta, c.data, type, narrow(c.ld), c.stride,
                                              narrow(batch), compute, CUBLAS_GEMM_DEFAULT));
  return Status();
}

}  // namespace shampoo::cuda

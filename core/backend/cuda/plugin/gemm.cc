// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/gemm.h"

#include <algorithm>
#include <limits>

#include "core/backend/cuda/plugin/cuda_call.h"

namespace shampoo::cuda {
namespace {

// The largest number of matrices in one call of cuBLAS. cuBLAS documents no limit, but calls with more than 65535
// matrices have failed.
constexpr int64_t kMaxMatrices = 32768;

// LowerProductWithTransposed() divides a large product into this number of panels of rows. In each panel, it omits the
// columns in which all elements are above the diagonal, so 5/8 of the product is computed.
constexpr int64_t kPanels = 4;

}  // namespace

Status Gemm(cublasHandle_t handle, const GemmOptions& options, int64_t m, int64_t n, int64_t k, const GemmInput& a,
            const GemmInput& b, const GemmOutput& c, int64_t batch) {
  if (m == 0 || n == 0 || batch == 0) return Status();
  if (std::max({m, n, k, a.ld, b.ld, c.ld}) > std::numeric_limits<int32_t>::max()) {
    return Unsupported("a product of ", m, " x ", k, " and ", k, " x ", n,
                       " matrices is too large for cuBLAS: expected at most 2147483647 rows and columns; set a smaller "
                       "value of max_preconditioner_dim, or divide the tensor with row_splits or stack_dims");
  }
  const auto element = static_cast<int64_t>(SizeOf(options.dtype));
  const bool f64 = options.dtype == Dtype::kF64;
  const cudaDataType_t type = f64 ? CUDA_R_64F : options.dtype == Dtype::kBf16 ? CUDA_R_16BF : CUDA_R_32F;
  const cublasComputeType_t compute = f64            ? CUBLAS_COMPUTE_64F
                                      : options.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                     : CUBLAS_COMPUTE_32F;
  const auto alpha32 = static_cast<float>(options.alpha);
  const auto beta32 = static_cast<float>(options.beta);
  const void* const alpha = f64 ? static_cast<const void*>(&options.alpha) : &alpha32;
  const void* const beta = f64 ? static_cast<const void*>(&options.beta) : &beta32;
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const auto narrow = [](int64_t number) { return static_cast<int>(number); };
  // cuBLAS reads each row-major matrix as its transpose, so compute C^T = op(B)^T op(A)^T.
  for (int64_t first = 0; first < batch; first += kMaxMatrices) {
    const auto from = [&](const GemmInput& matrices) {
      return static_cast<const char*>(matrices.data) + first * matrices.stride * element;
    };
    SHAMPOO_CUDA_TRY(cublasGemmStridedBatchedEx(
        handle, op(options.transpose_b), op(options.transpose_a), narrow(n), narrow(m), narrow(k), alpha, from(b), type,
        narrow(b.ld), b.stride, from(a), type, narrow(a.ld), a.stride, beta,
        static_cast<char*>(c.data) + first * c.stride * element, type, narrow(c.ld), c.stride,
        narrow(std::min(batch - first, kMaxMatrices)), compute, CUBLAS_GEMM_DEFAULT));
  }
  return Status();
}

Status LowerProductWithTransposed(cublasHandle_t handle, GemmOptions options, int64_t d, int64_t k, const GemmInput& a,
                                  const GemmOutput& c, int64_t batch) {
  options.transpose_b = !options.transpose_a;
  const auto element = static_cast<int64_t>(SizeOf(options.dtype));
  const int64_t panels = d >= kLowerProductPanelsFrom ? kPanels : 1;
  for (int64_t i = 0; i < panels; ++i) {
    const int64_t begin = d * i / panels;
    const int64_t end = d * (i + 1) / panels;
    const int64_t first = (options.transpose_a ? begin : begin * a.ld) * element;
    SHAMPOO_RETURN_IF_ERROR(Gemm(handle, options, end - begin, end, k,
                                 {static_cast<const char*>(a.data) + first, a.ld, a.stride}, a,
                                 {static_cast<char*>(c.data) + begin * c.ld * element, c.ld, c.stride}, batch));
  }
  return {};
}

}  // namespace shampoo::cuda

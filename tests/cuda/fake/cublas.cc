// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/cuda/fake/dense.h"
#include "tests/cuda/fake/state.h"

namespace shampoo::cuda_fake {
namespace {

// Returns the number of elements from the first to the last element of a matrix, both included.
int64_t MatrixSpan(int64_t rows, int64_t columns, int64_t ld) {
  return rows == 0 || columns == 0 ? 0 : (columns - 1) * ld + rows;
}

struct Operand {
  char* data;
  int64_t rows, columns, ld, stride;

  int64_t Span(int64_t batch) const {
    const int64_t one = MatrixSpan(rows, columns, ld);
    return one == 0 ? 0 : (batch - 1) * stride + one;
  }
};

struct Batch {
  Product how;
  Operand a, b, c;
  int64_t count;
  int device;
  void* workspace;
  size_t workspace_bytes;
};

// Multiplies matrices of bfloat16, with sums in float32. beta must be 0.
void Multiply(const Product& how, const __nv_bfloat16* a, int64_t lda, const __nv_bfloat16* b, int64_t ldb,
              __nv_bfloat16* c, int64_t ldc) {
  const auto widened = [](const __nv_bfloat16* from, int64_t rows, int64_t columns, int64_t ld) {
    std::vector<float> wide(static_cast<size_t>(MatrixSpan(rows, columns, ld)));
    std::transform(from, from + wide.size(), wide.begin(), [](__nv_bfloat16 value) { return __bfloat162float(value); });
    return wide;
  };
  const std::vector<float> wide_a = widened(a, how.transpose_a ? how.k : how.m, how.transpose_a ? how.m : how.k, lda);
  const std::vector<float> wide_b = widened(b, how.transpose_b ? how.n : how.k, how.transpose_b ? how.k : how.n, ldb);
  std::vector<float> product(static_cast<size_t>(how.m * how.n));
  Multiply(how, wide_a.data(), lda, wide_b.data(), ldb, product.data(), how.m);
  for (int64_t column = 0; column < how.n; ++column) {
    for (int64_t row = 0; row < how.m; ++row) {
      c[column * ldc + row] = __float2bfloat16_rn(product[static_cast<size_t>(column * how.m + row)]);
    }
  }
}

template <typename Real>
void RunBatch(const Batch& batch) {
  State& state = TheState();
  const auto bytes = [&](const Operand& o) { return static_cast<size_t>(o.Span(batch.count)) * sizeof(Real); };
  const bool reads = batch.how.k > 0;
  if (reads && !state.Check(batch.device, batch.a.data, bytes(batch.a), "cublasGemmStridedBatchedEx, A")) return;
  if (reads && !state.Check(batch.device, batch.b.data, bytes(batch.b), "cublasGemmStridedBatchedEx, B")) return;
  if (!state.Check(batch.device, batch.c.data, bytes(batch.c), "cublasGemmStridedBatchedEx, C")) return;
  if (batch.workspace != nullptr) {
    if (!state.Check(batch.device, batch.workspace, batch.workspace_bytes, "cuBLAS workspace")) return;
    // cuBLAS may overwrite the workspace. The fake always overwrites its first bytes, so that tests find callers that
    // keep data there.
    std::memset(batch.workspace, 0xff, std::min<size_t>(batch.workspace_bytes, 4096));
  }
  const auto at = [](const Operand& o, int64_t i) { return reinterpret_cast<Real*>(o.data) + i * o.stride; };
  for (int64_t i = 0; i < batch.count; ++i) {
    Multiply(batch.how, static_cast<const Real*>(at(batch.a, i)), batch.a.ld, static_cast<const Real*>(at(batch.b, i)),
             batch.b.ld, at(batch.c, i), batch.c.ld);
  }
}

// Records a misuse if output matrices share elements with each other or with an input.
void CheckOverlap(const Batch& batch, size_t element) {
  const Operand& c = batch.c;
  const int64_t one = MatrixSpan(c.rows, c.columns, c.ld);
  if (batch.count > 1 && std::abs(c.stride) < c.rows) {
    TheState().Problem("cublasGemmStridedBatchedEx: matrices of C overlap");
    return;
  }
  if (batch.how.k == 0 || one == 0) return;
  for (const Operand* input : {&batch.a, &batch.b}) {
    // Dense matrices share elements if their address ranges overlap. If C or the input has gaps between columns, ranges
    // can overlap without a shared element. In this case only the start addresses of the first matrices are compared.
    const bool dense = c.ld == c.rows && input->ld == input->rows;
    const int64_t batches = dense ? batch.count : 1;
    const auto in_bytes = static_cast<int64_t>(element) * MatrixSpan(input->rows, input->columns, input->ld);
    const auto out_bytes = static_cast<int64_t>(element) * one;
    for (int64_t i = 0; i < std::min<int64_t>(batches, 64); ++i) {
      const char* const out = c.data + i * c.stride * static_cast<int64_t>(element);
      const char* const in = input->data + i * input->stride * static_cast<int64_t>(element);
      const bool shared = dense ? in < out + out_bytes && out < in + in_bytes : in == out;
      if (!shared) continue;
      TheState().Problem("cublasGemmStridedBatchedEx: C overlaps an input");
      return;
    }
  }
}

// The largest batch that the fake accepts. cuBLAS documents no limit, but larger batches have failed on a GPU, because
// some kernels use one dimension of the grid for the batch.
constexpr int kMaxProducts = 65535;

// Returns a name for the kernel of a product. The name contains the sizes, because cuBLAS may use a different kernel
// for each size.
std::string NameOfProduct(std::array<int, 3> sizes, bool ta, bool tb, cudaDataType type, cublasComputeType_t compute) {
  std::string name = "the kernel of cuBLAS for";
  for (const int size : sizes) name += " " + std::to_string(size);
  return name + (ta ? " T" : " N") + (tb ? " T" : " N") + " of " + std::to_string(type) + " in " +
         std::to_string(compute);
}

bool IsOperation(cublasOperation_t op) { return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C; }

cublasStatus_t FromCuda(cudaError_t error) {
  if (error == cudaSuccess) return CUBLAS_STATUS_SUCCESS;
  return error == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace
}  // namespace shampoo::cuda_fake

using namespace shampoo::cuda_fake;

extern "C" {

// In cuBLAS, cublasCreate() allocates device memory, so it must not be called while a stream is captured.
cublasStatus_t cublasCreate_v2(cublasHandle_t* out) {
  const Call call(__func__, Call::kUnsafe);
  if (call.over()) return call.Blas();
  if (out == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *out = TheState().blas.Add(std::make_shared<BlasHandle>(BlasHandle{CurrentDevice()}));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  // In cuBLAS, cublasDestroy() waits for the device. The fake does not wait, because callers must not rely on the wait.
  // The flag kWaitsForDevice only affects captures.
  const Call call(__func__, Call::kUnsafe | Call::kWaitsForDevice | Call::kReleases);
  if (call.over()) return call.Blas();
  return TheState().blas.Remove(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Blas();
  const std::shared_ptr<BlasHandle> found = TheState().blas.Find(handle);
  if (found == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (Call::StreamOf(stream, found->device) == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  found->stream = stream;
  // As cuBLAS documents, setting the stream resets the workspace to the default workspace.
  found->workspace = nullptr;
  found->workspace_bytes = 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Blas();
  const std::shared_ptr<BlasHandle> found = TheState().blas.Find(handle);
  if (found == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool aligned = reinterpret_cast<uintptr_t>(workspace) % 256 == 0;
  const bool of_device = workspace == nullptr || TheState().memory.PlaceOf(workspace) == Place::kDevice;
  if (!aligned || !of_device || (workspace == nullptr) != (bytes == 0)) return CUBLAS_STATUS_INVALID_VALUE;
  found->workspace = workspace;
  found->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int* version) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Blas();
  if (TheState().blas.Find(handle) == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (version == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_LICENSE_ERROR";
  }
}

const char* cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                          int m, int n, int k, const void* alpha, const void* A, cudaDataType Atype,
                                          int lda, long long int strideA, const void* B, cudaDataType Btype, int ldb,
                                          long long int strideB, const void* beta, void* C, cudaDataType Ctype, int ldc,
                                          long long int strideC, int batchCount, cublasComputeType_t computeType,
                                          cublasGemmAlgo_t algo) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Blas();
  State& state = TheState();
  const std::shared_ptr<BlasHandle> found = state.blas.Find(handle);
  if (found == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!IsOperation(transa) || !IsOperation(transb) || m < 0 || n < 0 || k < 0 || batchCount < 0 ||
      batchCount > kMaxProducts || alpha == nullptr || beta == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool f64 = computeType == CUBLAS_COMPUTE_64F || computeType == CUBLAS_COMPUTE_64F_PEDANTIC;
  const bool tf32 = computeType == CUBLAS_COMPUTE_32F_FAST_TF32;
  const bool f32 = tf32 || computeType == CUBLAS_COMPUTE_32F || computeType == CUBLAS_COMPUTE_32F_PEDANTIC;
  const bool bf16 = computeType == CUBLAS_COMPUTE_32F && Atype == CUDA_R_16BF;
  const cudaDataType type = f64 ? CUDA_R_64F : bf16 ? CUDA_R_16BF : CUDA_R_32F;
  if ((!f64 && !f32) || Atype != type || Btype != type || Ctype != type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (algo != CUBLAS_GEMM_DEFAULT && algo != CUBLAS_GEMM_DEFAULT_TENSOR_OP) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool ta = transa != CUBLAS_OP_N;
  const bool tb = transb != CUBLAS_OP_N;
  Batch batch{};
  batch.a = {static_cast<char*>(const_cast<void*>(A)), ta ? k : m, ta ? m : k, lda, strideA};
  batch.b = {static_cast<char*>(const_cast<void*>(B)), tb ? n : k, tb ? k : n, ldb, strideB};
  batch.c = {static_cast<char*>(C), m, n, ldc, strideC};
  for (const Operand* operand : {&batch.a, &batch.b, &batch.c}) {
    if (operand->ld < std::max<int64_t>(operand->rows, 1) || operand->stride < 0) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const std::shared_ptr<Stream> stream = Call::StreamOf(found->stream, found->device);
  if (stream == nullptr || stream->device != found->device || found->device != CurrentDevice()) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  if (!state.Load(found->device, NameOfProduct({m, n, k}, ta, tb, type, computeType)))
    return CUBLAS_STATUS_EXECUTION_FAILED;
  ++state.counts[FAKE_CUDA_PRODUCTS];
  if (found->workspace == nullptr) ++state.counts[FAKE_CUDA_PRODUCTS_WITHOUT_WORKSPACE];
  if (m == 0 || n == 0 || batchCount == 0) return CUBLAS_STATUS_SUCCESS;
  const auto scalar = [&](const void* from) {
    return f64 ? *static_cast<const double*>(from) : static_cast<double>(*static_cast<const float*>(from));
  };
  batch.how = {ta, tb, m, n, k, scalar(alpha), scalar(beta), tf32};
  batch.count = batchCount;
  batch.device = found->device;
  batch.workspace = found->workspace;
  batch.workspace_bytes = found->workspace_bytes;
  if (bf16 && batch.how.beta != 0) return CUBLAS_STATUS_NOT_SUPPORTED;  // not implemented in the fake
  CheckOverlap(batch, f64 ? sizeof(double) : bf16 ? sizeof(__nv_bfloat16) : sizeof(float));
  const auto run = f64 ? RunBatch<double> : bf16 ? RunBatch<__nv_bfloat16> : RunBatch<float>;
  return FromCuda(state.streams.Enqueue(stream, [batch, run] { run(batch); }));
}

}  // extern "C"

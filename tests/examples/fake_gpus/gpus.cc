// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Makes an example run on fake GPUs: before main(), libshampoo loads the CUDA backend that uses the fake CUDA. The
// environment variable FAKE_GPUS sets the number of GPUs; the default is 4. If the fake CUDA has detected misuse or
// memory that was not freed, the process exits with status 3.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <shampoo/shampoo.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/cuda/fake/control.h"

namespace {

void End() {
  const std::string problems = std::string(fake_cuda_problems()) + fake_cuda_leaks();
  if (problems.empty()) return;
  std::fflush(stdout);
  std::fprintf(stderr, "the fake CUDA reports:\n%s", problems.c_str());
  _exit(3);
}

__attribute__((constructor)) void Begin() {
  const char* const gpus = std::getenv("FAKE_GPUS");
  fake_cuda_set_system(gpus != nullptr ? std::atoi(gpus) : 4, CUDART_VERSION, CUDART_VERSION);
  fake_cuda_begin_loading();  // fake_cuda_end_loading() is not called: examples may load kernels at any time
  if (shampoo_backend_load(SHAMPOO_TEST_CUDA_PLUGIN) != SHAMPOO_OK) {
    std::fprintf(stderr, "%s\n", shampoo_last_error());
    std::exit(EXIT_FAILURE);
  }
  (void)std::atexit(End);
}

}  // namespace

// Functions of CUDA that the examples call and that the fake CUDA does not have, because libshampoo does not call them.
extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "fake");
  return cudaSuccess;
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                              int k, const float* alpha, const float* A, int lda, const float* B, int ldb,
                              const float* beta, float* C, int ldc) {
  return cublasGemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, A, CUDA_R_32F, lda, 0, B, CUDA_R_32F, ldb,
                                    0, beta, C, CUDA_R_32F, ldc, 0, 1, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t cublasSgemv_v2(cublasHandle_t handle, cublasOperation_t trans, int m, int n, const float* alpha,
                              const float* A, int lda, const float* x, int incx, const float* beta, float* y,
                              int incy) {
  if (trans != CUBLAS_OP_N || incx != 1 || incy != 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  return cublasSgemm_v2(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, 1, n, alpha, A, lda, x, n, beta, y, m);
}

}  // extern "C"

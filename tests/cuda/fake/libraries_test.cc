// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cublas_v2.h>
#include <cusolverDn.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda/fake/test_util.h"

// Tests of the products (cuBLAS), eigensolvers (cuSOLVER) and graphs of the fake CUDA.
namespace shampoo::cuda {
namespace {

template <typename Real>
Real* ToDevice(const std::vector<Real>& values) {
  Real* data = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&data), values.size() * sizeof(Real)) == cudaSuccess);
  CHECK(cudaMemcpy(data, values.data(), values.size() * sizeof(Real), cudaMemcpyHostToDevice) == cudaSuccess);
  return data;
}

template <typename Real>
std::vector<Real> ToHost(const Real* data, size_t count) {
  std::vector<Real> values(count);
  CHECK(cudaMemcpy(values.data(), data, count * sizeof(Real), cudaMemcpyDeviceToHost) == cudaSuccess);
  return values;
}

struct BlasFixture : FakeCudaFixture {
  BlasFixture() {
    REQUIRE(cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasSetStream(blas, stream[0]) == CUBLAS_STATUS_SUCCESS);
  }
  // Computes c <- a b + beta c for a batch of two, with a 2 x 3 matrix a and a 3 x 2 matrix b. The columns of `a` are
  // lda elements apart.
  cublasStatus_t Product(const void* a, int lda, const void* b, float beta, void* c,
                         cublasComputeType_t compute = CUBLAS_COMPUTE_32F) const {
    const float alpha = 1;
    return cublasGemmStridedBatchedEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, &alpha, a, CUDA_R_32F, lda, 6, b,
                                      CUDA_R_32F, 3, 6, &beta, c, CUDA_R_32F, 2, 4, 2, compute, CUBLAS_GEMM_DEFAULT);
  }
  cublasHandle_t blas = nullptr;
};

TEST_CASE_FIXTURE(BlasFixture,
                  "products have the right values, and wrong arguments and overlapping outputs are reported") {
  const std::vector<float> a_values{1, 2, 3, 4, 5, 6, 1, 0, 0, 1, 1, 1};
  const std::vector<float> b_values{1, 0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7};
  const float* const a = ToDevice(a_values);
  const float* const b = ToDevice(b_values);
  float* c = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&c), 32) == cudaSuccess);
  CHECK(Product(a, 2, b, 0, c) == CUBLAS_STATUS_SUCCESS);  // beta is 0, so the NaN in the new memory of c has no effect
  CHECK(cudaStreamSynchronize(stream[0]) == cudaSuccess);
  CHECK(ToHost(c, 8) == std::vector<float>{1, 2, 9, 12, 6, 7, 12, 13});
  CHECK(Product(a, 2, b, 1, c) == CUBLAS_STATUS_SUCCESS);
  CHECK(cudaStreamSynchronize(stream[0]) == cudaSuccess);
  CHECK(ToHost(c, 8) == std::vector<float>{2, 4, 18, 24, 12, 14, 24, 26});
  CHECK(fake_cuda_count(FAKE_CUDA_PRODUCTS) == 2);
  CHECK(fake_cuda_count(FAKE_CUDA_PRODUCTS_WITHOUT_WORKSPACE) == 2);
  CHECK(fake_cuda_problems() == std::string());

  CHECK(Product(a, 1, b, 0, c) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(Product(a, 2, b, 0, c, CUBLAS_COMPUTE_64F) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(Product(a, 2, b, 0, const_cast<float*>(a)) == CUBLAS_STATUS_SUCCESS);
  CHECK(fake_cuda_problems() == std::string("cublasGemmStridedBatchedEx: C overlaps an input\n"));
}

TEST_CASE_FIXTURE(BlasFixture, "products in TF32 round their factors") {
  const float fine = 1 + 1.0F / 4096;  // TF32 has 10 fraction bits, so it rounds this number to 1
  const float* const a = ToDevice(std::vector<float>(12, fine));
  const float* const b = ToDevice(std::vector<float>(12, 1));
  float* c = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&c), 32) == cudaSuccess);
  for (const bool tf32 : {false, true}) {
    CHECK(Product(a, 2, b, 0, c, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F) == CUBLAS_STATUS_SUCCESS);
    CHECK(cudaStreamSynchronize(stream[0]) == cudaSuccess);
    CHECK(ToHost(c, 1)[0] == (tf32 ? 3 : 3 * fine));
  }
}

TEST_CASE_FIXTURE(BlasFixture, "products reject batches of more than 65535 matrices") {
  const float* const b = ToDevice(std::vector<float>(1, 3));
  float* c = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&c), 65536 * sizeof(float)) == cudaSuccess);
  const float one = 1;
  const float zero = 0;
  const auto square = [&](int batch) {
    return cublasGemmStridedBatchedEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, b, CUDA_R_32F, 1, 0, b, CUDA_R_32F,
                                      1, 0, &zero, c, CUDA_R_32F, 1, 1, batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  };
  CHECK(square(65536) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(square(65535) == CUBLAS_STATUS_SUCCESS);
  CHECK(cudaStreamSynchronize(stream[0]) == cudaSuccess);
  CHECK(ToHost(c, 65535).back() == 9);
}

TEST_CASE_FIXTURE(BlasFixture, "an operand that exceeds its allocation causes a permanent device fault") {
  const float* const a = ToDevice(std::vector<float>(11, 1));  // one element too few
  const float* const b = ToDevice(std::vector<float>(12, 1));
  float* c = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&c), 32) == cudaSuccess);
  CHECK(Product(a, 2, b, 0, c) == CUBLAS_STATUS_SUCCESS);
  CHECK(cudaStreamSynchronize(stream[0]) == cudaErrorIllegalAddress);
  CHECK(Product(b, 2, b, 0, c) == CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK(cudaStreamSynchronize(stream[0]) == cudaErrorIllegalAddress);
  CHECK(std::string(fake_cuda_problems()).find("cublasGemmStridedBatchedEx, A: 48 bytes from byte 0") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(BlasFixture, "the workspace must be aligned device memory; setting a stream resets the workspace") {
  void* workspace = nullptr;
  CHECK(cudaMalloc(&workspace, 4096) == cudaSuccess);
  CHECK(cublasSetWorkspace(blas, ones.data(), 64) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasSetWorkspace(blas, static_cast<char*>(workspace) + 64, 64) == CUBLAS_STATUS_INVALID_VALUE);
  const float* const b = ToDevice(std::vector<float>(12, 1));
  float* c = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&c), 32) == cudaSuccess);
  fake_cuda_mark();
  CHECK(cublasSetWorkspace(blas, workspace, 4096) == CUBLAS_STATUS_SUCCESS);
  CHECK(Product(b, 2, b, 0, c) == CUBLAS_STATUS_SUCCESS);
  CHECK(fake_cuda_count(FAKE_CUDA_PRODUCTS_WITHOUT_WORKSPACE) == 0);
  CHECK(cublasSetStream(blas, stream[1]) == CUBLAS_STATUS_SUCCESS);
  CHECK(Product(b, 2, b, 0, c) == CUBLAS_STATUS_SUCCESS);
  CHECK(fake_cuda_count(FAKE_CUDA_PRODUCTS_WITHOUT_WORKSPACE) == 1);
}

// Decomposes two 3 x 3 matrices, with cusolverDnXsyevBatched() or with Jacobi's method (cusolverDnDsyevjBatched()). The
// first matrix has the eigenvalues 1, 2 and 4. The second one is three times the first.
struct SolverFixture : FakeCudaFixture {
  SolverFixture() {
    REQUIRE(cusolverDnCreate(&solver) == CUSOLVER_STATUS_SUCCESS);
    REQUIRE(cusolverDnSetStream(solver, stream[0]) == CUSOLVER_STATUS_SUCCESS);
    REQUIRE(cusolverDnCreateParams(&params) == CUSOLVER_STATUS_SUCCESS);
    REQUIRE(cusolverDnCreateSyevjInfo(&jacobi) == CUSOLVER_STATUS_SUCCESS);
    a = ToDevice(matrices);
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&w), 6 * sizeof(double)) == cudaSuccess);
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&info), 2 * sizeof(int)) == cudaSuccess);
  }
  void Solve(bool with_jacobi) {
    CHECK(cudaMemcpy(a, matrices.data(), matrices.size() * 8, cudaMemcpyHostToDevice) == cudaSuccess);
    size_t bytes = 0;
    size_t host_bytes = 0;
    int lwork = 0;
    void* work = nullptr;
    const cusolverEigMode_t mode = CUSOLVER_EIG_MODE_VECTOR;
    const cublasFillMode_t uplo = CUBLAS_FILL_MODE_LOWER;
    if (with_jacobi) {
      CHECK(cusolverDnDsyevjBatched_bufferSize(solver, mode, uplo, 3, a, 3, w, &lwork, jacobi, 2) ==
            CUSOLVER_STATUS_SUCCESS);
      bytes = static_cast<size_t>(lwork) * 8;
    } else {
      CHECK(cusolverDnXsyevBatched_bufferSize(solver, params, mode, uplo, 3, CUDA_R_64F, a, 3, CUDA_R_64F, w,
                                              CUDA_R_64F, &bytes, &host_bytes, 2) == CUSOLVER_STATUS_SUCCESS);
    }
    CHECK(cudaMalloc(&work, bytes) == cudaSuccess);
    std::vector<char> host(host_bytes);
    if (with_jacobi) {
      CHECK(cusolverDnDsyevjBatched(solver, mode, uplo, 3, a, 3, w, static_cast<double*>(work), lwork - 1, info, jacobi,
                                    2) == CUSOLVER_STATUS_INVALID_VALUE);
      CHECK(cusolverDnDsyevjBatched(solver, mode, uplo, 3, a, 3, w, static_cast<double*>(work), lwork, info, jacobi,
                                    2) == CUSOLVER_STATUS_SUCCESS);
    } else {
      CHECK(cusolverDnXsyevBatched(solver, params, mode, uplo, 3, CUDA_R_64F, a, 3, CUDA_R_64F, w, CUDA_R_64F, work,
                                   bytes, host.data(), host_bytes, info, 2) == CUSOLVER_STATUS_SUCCESS);
    }
    CHECK(cudaStreamSynchronize(stream[0]) == cudaSuccess);
    CHECK(cudaFree(work) == cudaSuccess);
  }
  // Returns the largest element of |A - V diag(w) V^T| for the matrix A with the index `matrix`. The columns of V are
  // the computed eigenvectors of A, and w contains its computed eigenvalues.
  double Error(size_t matrix) const {
    const std::vector<double> v = ToHost(a, 18);
    const std::vector<double> values = ToHost(w, 6);
    double largest = 0;
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        double sum = -matrices[matrix * 9 + j * 3 + i];
        for (size_t k = 0; k < 3; ++k) {
          const double* const column = v.data() + matrix * 9 + k * 3;
          sum += column[i] * values[matrix * 3 + k] * column[j];
        }
        largest = std::isnan(sum) ? sum : std::max(largest, std::abs(sum));
      }
    }
    return largest;
  }
  cusolverDnHandle_t solver = nullptr;
  cusolverDnParams_t params = nullptr;
  syevjInfo_t jacobi = nullptr;
  const double nan = std::nan("");
  // The upper triangles are NaN, because solvers must not read them.
  const std::vector<double> matrices{1.5, 0.5, 0, nan, 1.5, 0, nan, nan, 4, 4.5, 1.5, 0, nan, 4.5, 0, nan, nan, 12};
  double* a = nullptr;
  double* w = nullptr;
  int* info = nullptr;
};

TEST_CASE_FIXTURE(SolverFixture, "both eigensolvers read one triangle and return eigenvalues and eigenvectors") {
  for (const bool with_jacobi : {false, true}) {
    Solve(with_jacobi);
    const std::vector<double> values = ToHost(w, 6);
    for (size_t i = 0; i < 6; ++i) {
      CHECK(values[i] == doctest::Approx(std::vector<double>{1, 2, 4, 3, 6, 12}[i]).epsilon(1e-14));
    }
    CHECK(Error(0) < 1e-14);
    CHECK(Error(1) < 1e-14);
    CHECK(ToHost(info, 2) == std::vector<int>{0, 0});
  }
  CHECK(fake_cuda_count(FAKE_CUDA_EIGENPROBLEMS) == 2);
  CHECK(fake_cuda_count(FAKE_CUDA_NONFINITE_EIGENPROBLEMS) == 0);
}

TEST_CASE_FIXTURE(SolverFixture, "fake_cuda_fail_eigen makes the selected eigenproblems fail in the selected way") {
  fake_cuda_fail_eigen(2, 1, FAKE_CUDA_EIGEN_INFO, 3);
  Solve(false);
  CHECK(ToHost(info, 2) == std::vector<int>{0, 0});
  Solve(false);
  CHECK(ToHost(info, 2) == std::vector<int>{0, 3});
  CHECK(std::isnan(Error(1)));
  fake_cuda_fail_eigen(1, 0, FAKE_CUDA_EIGEN_WRONG_VECTORS, 0);
  Solve(false);
  CHECK(Error(0) > 0.1);
  CHECK(Error(1) < 1e-14);
  fake_cuda_fail_eigen(1, -1, FAKE_CUDA_EIGEN_NAN, 0);
  Solve(true);
  CHECK(std::isnan(Error(0)));
  CHECK(std::isnan(Error(1)));
  CHECK(ToHost(info, 2) == std::vector<int>{0, 0});
  CHECK(fake_cuda_cancel_failures() == 0);
}

TEST_CASE_FIXTURE(FakeCudaFixture, "a graph replays the work of all captured streams, which must be joined") {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaEvent_t back = nullptr;
  CHECK(cudaEventCreateWithFlags(&back, cudaEventDisableTiming) == cudaSuccess);
  CHECK(cudaStreamBeginCapture(stream[0], cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(Launch(stream[0], 1, Scale{data, 2}) == cudaSuccess);
  CHECK(cudaEventRecord(event, stream[0]) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(stream[1], event, 0) == cudaSuccess);
  CHECK(cudaStreamIsCapturing(stream[1], &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusActive);
  CHECK(Launch(stream[1], 1, Scale{data + 4, 3}) == cudaSuccess);
  CHECK(Launch(stream[0], 1, Scale{data, 2}) == cudaSuccess);
  CHECK(cudaEventRecord(back, stream[1]) == cudaSuccess);
  SUBCASE("joined streams") {
    CHECK(cudaStreamWaitEvent(stream[0], back, 0) == cudaSuccess);
    CHECK(Launch(stream[0], 2, Scale{data, 5}) == cudaSuccess);
    CHECK(cudaStreamEndCapture(stream[0], &graph) == cudaSuccess);
    CHECK(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(First() == 1);
    for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(exec, stream[1]) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream[1]) == cudaSuccess);
    CHECK(First() == 400);
    CHECK(ToHost(data + 4, 1)[0] == 225);
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
    CHECK(fake_cuda_live(FAKE_CUDA_GRAPHS) + fake_cuda_live(FAKE_CUDA_GRAPH_EXECS) == 0);
    CHECK(cudaEventQuery(event) == cudaErrorCapturedEvent);
  }
  SUBCASE("a stream that is not joined") {
    CHECK(cudaStreamEndCapture(stream[0], &graph) == cudaErrorStreamCaptureUnjoined);
    CHECK(graph == nullptr);
  }
  CHECK(cudaStreamIsCapturing(stream[1], &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusNone);
}

TEST_CASE_FIXTURE(FakeCudaFixture, "a call that a capture does not allow invalidates the capture") {
  cudaGraph_t graph = nullptr;
  void* memory = nullptr;
  cublasHandle_t blas = nullptr;
  cudaEvent_t outside = nullptr;
  cudaStream_t blocking = nullptr;
  CHECK(cudaEventCreateWithFlags(&outside, cudaEventDisableTiming) == cudaSuccess);
  CHECK(cudaEventRecord(outside, stream[1]) == cudaSuccess);
  CHECK(cudaStreamCreate(&blocking) == cudaSuccess);
  cudaStream_t captured = stream[0];
  bool breaks = true;
  const auto begin = [&] { CHECK(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal) == cudaSuccess); };
  SUBCASE("calls that wait, query an event, allocate or create handles") {
    const std::pair<const char*, std::function<cudaError_t()>> calls[] = {
        {"synchronization", [&] { return cudaStreamSynchronize(stream[0]); }},
        {"synchronization of another stream", [&] { return cudaStreamSynchronize(stream[1]); }},
        {"queries", [&] { return cudaEventQuery(outside); }},
        {"allocation", [&] { return cudaMalloc(&memory, 4); }},
        {"allocation in the captured stream", [&] { return cudaMallocAsync(&memory, 4, stream[0]); }},
    };
    for (const auto& [what, call] : calls) {
      CAPTURE(std::string(what));
      begin();
      CHECK(call() == cudaErrorStreamCaptureUnsupported);
      CHECK(cudaStreamEndCapture(captured, &graph) == cudaErrorStreamCaptureInvalidated);
      CHECK(cudaStreamSynchronize(captured) == cudaSuccess);
    }
    begin();
    CHECK(cublasCreate(&blas) == CUBLAS_STATUS_EXECUTION_FAILED);
  }
  SUBCASE("a wait for work that is not captured") {
    begin();
    CHECK(cudaStreamWaitEvent(stream[0], outside, 0) == cudaErrorStreamCaptureIsolation);
  }
  SUBCASE("use of the legacy stream, if the captured stream waits for the legacy stream") {
    captured = blocking;
    begin();
    CHECK(cudaMemsetAsync(data, 0, 4, nullptr) == cudaErrorStreamCaptureImplicit);
  }
  SUBCASE("use of the legacy stream is allowed if the captured stream does not wait for the legacy stream") {
    begin();
    CHECK(cudaMemsetAsync(data, 0, 4, nullptr) == cudaSuccess);
    breaks = false;
  }
  SUBCASE("calls on another thread, unless the mode of that thread allows them") {
    for (const cudaStreamCaptureMode mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
      begin();
      std::thread([&] {
        cudaStreamCaptureMode exchanged = mode;
        CHECK(cudaThreadExchangeStreamCaptureMode(&exchanged) == cudaSuccess);
        CHECK(exchanged == cudaStreamCaptureModeGlobal);
        CHECK(cudaEventQuery(outside) == cudaErrorNotReady);
        CHECK(cudaStreamSynchronize(stream[1]) == cudaSuccess);
        CHECK(cudaEventRecord(outside, stream[1]) == cudaSuccess);
      }).join();
      CHECK(cudaStreamEndCapture(captured, &graph) == cudaSuccess);
    }
    begin();
    std::thread([&] { CHECK(cudaEventQuery(outside) == cudaErrorStreamCaptureUnsupported); }).join();
  }
  SUBCASE("queries on the capturing thread in the thread-local mode") {
    begin();
    cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
    CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
    CHECK(cudaEventQuery(outside) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
    CHECK(mode == cudaStreamCaptureModeThreadLocal);
  }
  CHECK(cudaStreamEndCapture(captured, &graph) == (breaks ? cudaErrorStreamCaptureInvalidated : cudaSuccess));
  CHECK(cudaStreamSynchronize(captured) == cudaSuccess);
}

}  // namespace
}  // namespace shampoo::cuda

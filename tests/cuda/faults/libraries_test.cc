// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of failures that cuBLAS and cuSOLVER report with their own error codes.
#include <cublas_v2.h>
#include <cusolverDn.h>

#include "tests/cuda/faults/attempts.h"

namespace shampoo_test {
namespace {

// A function of cuBLAS or cuSOLVER, and the error code that the fake returns from it. libshampoo must report `name`,
// the name of the code, and must return `status`.
struct Failing {
  const char* function;
  int code;
  const char* name;
  shampoo_status status;
};

const Failing kAtCreate[] = {
    {"cublasCreate", CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", SHAMPOO_E_NOMEM},
    {"cublasCreate", CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH", SHAMPOO_E_DEVICE},
    {"cublasSetStream", CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", SHAMPOO_E_DEVICE},
    {"cublasSetWorkspace", CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE", SHAMPOO_E_DEVICE},
    {"cusolverDnCreate", CUSOLVER_STATUS_NOT_INITIALIZED, "CUSOLVER_STATUS_NOT_INITIALIZED", SHAMPOO_E_DEVICE},
    {"cusolverDnSetStream", CUSOLVER_STATUS_INTERNAL_ERROR, "CUSOLVER_STATUS_INTERNAL_ERROR", SHAMPOO_E_DEVICE},
    {"cusolverDnSetDeterministicMode", CUSOLVER_STATUS_NOT_INITIALIZED, "CUSOLVER_STATUS_NOT_INITIALIZED",
     SHAMPOO_E_DEVICE},
#if CUDART_VERSION >= 13000
    {"cusolverDnSetAdvOptions", CUSOLVER_STATUS_INTERNAL_ERROR, "CUSOLVER_STATUS_INTERNAL_ERROR", SHAMPOO_E_DEVICE},
#endif
    {"cusolverDnCreateParams", CUSOLVER_STATUS_ALLOC_FAILED, "CUSOLVER_STATUS_ALLOC_FAILED", SHAMPOO_E_NOMEM},
    {"cusolverDnCreateSyevjInfo", CUSOLVER_STATUS_ALLOC_FAILED, "CUSOLVER_STATUS_ALLOC_FAILED", SHAMPOO_E_NOMEM},
};

const Failing kAtChangeOfStream[] = {
    {"cublasSetStream", CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR", SHAMPOO_E_DEVICE},
    {"cublasSetWorkspace", CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", SHAMPOO_E_DEVICE},
    {"cusolverDnSetStream", CUSOLVER_STATUS_NOT_INITIALIZED, "CUSOLVER_STATUS_NOT_INITIALIZED", SHAMPOO_E_DEVICE},
};

const Failing kAtStep[] = {
    {"cublasGemmStridedBatchedEx", CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", SHAMPOO_E_DEVICE},
    {"cublasGemmStridedBatchedEx", CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", SHAMPOO_E_NOMEM},
    {"cublasGemmStridedBatchedEx", CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", SHAMPOO_E_DEVICE},
};

void CheckAll(const std::vector<Failing>& all, const Attempt& attempt) {
  for (const Failing& one : all) {
    CAPTURE(one.function);
    const int64_t failures = FailEach(
        attempt, [&](int64_t n) { fake_cuda_fail(one.function, n, one.code); }, [&](int64_t) { return one.status; },
        std::string(one.function) + "(...) failed: " + one.name);
    CHECK(failures > 0);
  }
}

ModelSpec SpecOfLibraries() {
  ModelSpec spec;
  spec.params = {{{4, 3}}, {{4, 3}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64}, {{40}}};
  spec.keys = "epsilon=0.1 status_lag=0";
  return spec;
}

TEST_CASE("create reports a failure of cuBLAS or cuSOLVER with the name of the error" * NeedsFake()) {
  shampoo_optimizer* made = nullptr;
  CheckAll({std::begin(kAtCreate), std::end(kAtCreate)}, AttemptToCreate(SpecOfLibraries(), &made));
}

#if CUDART_VERSION >= 13000
TEST_CASE("create uses the default algorithm of cuSOLVER if cuSOLVER rejects the algorithm for batches" * NeedsFake()) {
  shampoo_optimizer* made = nullptr;
  const Attempt attempt = AttemptToCreate(SpecOfLibraries(), &made);
  for (const int code : {CUSOLVER_STATUS_INVALID_VALUE, CUSOLVER_STATUS_NOT_SUPPORTED}) {
    CAPTURE(code);
    CHECK(TryOnce(attempt, [&] { fake_cuda_fail_always("cusolverDnSetAdvOptions", code); }).status == SHAMPOO_OK);
  }
}
#endif

const Failing kBatchedQueries[] = {
    {"cusolverDnSsyevjBatched_bufferSize", CUSOLVER_STATUS_INVALID_VALUE, "CUSOLVER_STATUS_INVALID_VALUE",
     SHAMPOO_E_DEVICE},
    {"cusolverDnDsyevjBatched_bufferSize", CUSOLVER_STATUS_ALLOC_FAILED, "CUSOLVER_STATUS_ALLOC_FAILED",
     SHAMPOO_E_NOMEM},
    {"cusolverDnXsyevBatched_bufferSize", CUSOLVER_STATUS_NOT_SUPPORTED, "CUSOLVER_STATUS_NOT_SUPPORTED",
     SHAMPOO_E_DEVICE},
    {"cusolverDnXsyevBatched_bufferSize", 4711, "error 4711", SHAMPOO_E_DEVICE},
};

TEST_CASE(
    "create fails if cuSOLVER rejects the workspace queries of both the batched solver and the solver for one matrix" *
    NeedsFake()) {
  for (const Failing& one : kBatchedQueries) {
    CAPTURE(one.function);
    shampoo_optimizer* made = nullptr;
    const Attempt attempt = AttemptToCreate(SpecOfLibraries(), &made);
    const Outcome refused = TryOnce(attempt, [&] {
      fake_cuda_fail_always(one.function, one.code);
      fake_cuda_fail_always("cusolverDnXsyevd_bufferSize", CUSOLVER_STATUS_NOT_SUPPORTED);
    });
    CHECK(refused.status == one.status);
    CHECK(refused.text.find(std::string(one.function) + "(...) failed: " + one.name) != std::string::npos);
    CHECK(TryOnce(attempt, [&] { fake_cuda_fail_always(one.function, one.code); }).status == SHAMPOO_OK);
  }
}

TEST_CASE("a step reports a failure of cuBLAS or cuSOLVER with the name of the error" * NeedsFake()) {
  const Attempt attempt{.spec = SpecOfLibraries(), .steps_before = 1, .run = [](Model* model) {
                          return shampoo_optimizer_step(model->optimizer, model->stream);
                        }};
  CheckAll({std::begin(kAtStep), std::end(kAtStep)}, attempt);
}

TEST_CASE("the first step on another stream reports a failure of cuBLAS or cuSOLVER, and succeeds when it is repeated" *
          NeedsFake()) {
  const auto step = [](Model* model) { return shampoo_optimizer_step(model->optimizer, nullptr); };
  const Attempt attempt{
      .spec = SpecOfLibraries(), .steps_before = 1, .run = step, .afterwards = [&](Model* model, bool) {
        fake_cuda_mark();
        CHECK(step(model) == SHAMPOO_OK);
        CHECK(fake_cuda_count(FAKE_CUDA_PRODUCTS) > 0);
        CHECK(fake_cuda_count(FAKE_CUDA_PRODUCTS_WITHOUT_WORKSPACE) == 0);
      }};
  CheckAll({std::begin(kAtChangeOfStream), std::end(kAtChangeOfStream)}, attempt);
}

}  // namespace
}  // namespace shampoo_test

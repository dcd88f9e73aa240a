// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Failures that cuBLAS and cuSOLVER report with their own error codes.
#include <cublas_v2.h>
#include <cusolverDn.h>

#include "tests/cuda/faults/attempts.h"

namespace shampoo_test {
namespace {

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
    {"cusolverDnCreateParams", CUSOLVER_STATUS_ALLOC_FAILED, "CUSOLVER_STATUS_ALLOC_FAILED", SHAMPOO_E_NOMEM},
    {"cusolverDnCreateSyevjInfo", CUSOLVER_STATUS_ALLOC_FAILED, "CUSOLVER_STATUS_ALLOC_FAILED", SHAMPOO_E_NOMEM},
    {"cusolverDnSsyevjBatched_bufferSize", CUSOLVER_STATUS_INVALID_VALUE, "CUSOLVER_STATUS_INVALID_VALUE",
     SHAMPOO_E_DEVICE},
    {"cusolverDnDsyevjBatched_bufferSize", CUSOLVER_STATUS_INTERNAL_ERROR, "CUSOLVER_STATUS_INTERNAL_ERROR",
     SHAMPOO_E_DEVICE},
    {"cusolverDnXsyevBatched_bufferSize", CUSOLVER_STATUS_NOT_SUPPORTED, "CUSOLVER_STATUS_NOT_SUPPORTED",
     SHAMPOO_E_DEVICE},
    {"cusolverDnXsyevBatched_bufferSize", 4711, "error 4711", SHAMPOO_E_DEVICE},
};

const Failing kAtStep[] = {
    {"cublasSetStream", CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR", SHAMPOO_E_DEVICE},
    {"cublasSetWorkspace", CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", SHAMPOO_E_DEVICE},
    {"cublasGemmStridedBatchedEx", CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", SHAMPOO_E_DEVICE},
    {"cublasGemmStridedBatchedEx", CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", SHAMPOO_E_NOMEM},
    {"cublasGemmStridedBatchedEx", CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", SHAMPOO_E_DEVICE},
    {"cusolverDnSetStream", CUSOLVER_STATUS_NOT_INITIALIZED, "CUSOLVER_STATUS_NOT_INITIALIZED", SHAMPOO_E_DEVICE},
    {"cusolverDnSsyevjBatched", CUSOLVER_STATUS_ARCH_MISMATCH, "CUSOLVER_STATUS_ARCH_MISMATCH", SHAMPOO_E_DEVICE},
    {"cusolverDnDsyevjBatched", CUSOLVER_STATUS_EXECUTION_FAILED, "CUSOLVER_STATUS_EXECUTION_FAILED", SHAMPOO_E_DEVICE},
    {"cusolverDnXsyevBatched", CUSOLVER_STATUS_ALLOC_FAILED, "CUSOLVER_STATUS_ALLOC_FAILED", SHAMPOO_E_NOMEM},
};

void CheckAll(const std::vector<Failing>& all, const Attempt& attempt) {
  for (const Failing& one : all) {
    CAPTURE(one.function);
    const int64_t met = FailEach(
        attempt, [&](int64_t n) { fake_cuda_fail(one.function, n, one.code); }, [&](int64_t) { return one.status; },
        std::string(one.function) + "(...) failed: " + one.name);
    CHECK(met > 0);
  }
}

ModelSpec SpecOfLibraries() {
  ModelSpec spec;
  spec.params = {{{4, 3}}, {{4, 3}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64}, {{40}}};
  spec.keys = {{"epsilon", "0.1"}, {"status_lag", "0"}};
  return spec;
}

TEST_CASE("a failure of cuBLAS or cuSOLVER at create" * NeedsFake()) {
  shampoo_optimizer* made = nullptr;
  Attempt attempt{.spec = SpecOfLibraries(), .run = {}};
  attempt.run = [&](Model* model) {
    shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
    desc.device_type = SHAMPOO_CUDA;
    return shampoo_optimizer_create(&made, model->plan, &desc);
  };
  attempt.afterwards = [&](Model*, bool) { shampoo_optimizer_destroy(std::exchange(made, nullptr)); };
  CheckAll({std::begin(kAtCreate), std::end(kAtCreate)}, attempt);
}

TEST_CASE("a failure of cuBLAS or cuSOLVER in a step" * NeedsFake()) {
  const Attempt attempt{.spec = SpecOfLibraries(), .steps_before = 1, .run = [](Model* model) {
                          return shampoo_optimizer_step(model->optimizer, model->stream);
                        }};
  CheckAll({std::begin(kAtStep), std::end(kAtStep)}, attempt);
}

}  // namespace
}  // namespace shampoo_test

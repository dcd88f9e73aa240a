// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/cuda_call.h"

#include <string_view>

#include "core/base/text.h"

namespace shampoo::cuda {
namespace {

Status CallFailed(bool memory, std::string_view call, const char* name, int number) {
  const std::string_view function = call.substr(0, call.find('('));
  std::string text(function);
  text += "(...) failed: ";
  // Newer versions of CUDA's libraries may return errors whose names this build does not know.
  text += name != nullptr ? name : Cat("error ", number);
  return Status(memory ? Code::kNoMemory : Code::kDevice, std::move(text));
}

// cuSOLVER has no function that returns the name of a status.
const char* NameOf(cusolverStatus_t status) {
  switch (status) {
    case CUSOLVER_STATUS_NOT_INITIALIZED:
      return "CUSOLVER_STATUS_NOT_INITIALIZED";
    case CUSOLVER_STATUS_ALLOC_FAILED:
      return "CUSOLVER_STATUS_ALLOC_FAILED";
    case CUSOLVER_STATUS_INVALID_VALUE:
      return "CUSOLVER_STATUS_INVALID_VALUE";
    case CUSOLVER_STATUS_ARCH_MISMATCH:
      return "CUSOLVER_STATUS_ARCH_MISMATCH";
    case CUSOLVER_STATUS_EXECUTION_FAILED:
      return "CUSOLVER_STATUS_EXECUTION_FAILED";
    case CUSOLVER_STATUS_INTERNAL_ERROR:
      return "CUSOLVER_STATUS_INTERNAL_ERROR";
    case CUSOLVER_STATUS_NOT_SUPPORTED:
      return "CUSOLVER_STATUS_NOT_SUPPORTED";
    default:
      return nullptr;
  }
}

}  // namespace

Status StatusOf(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return Status();
  if (error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureWrongThread) {
    return WrongState(
        std::string_view(call).substr(0, std::string_view(call).find('(')),
        "(...) is not allowed while a stream is captured: ", cudaGetErrorName(error),
        "; only shampoo_optimizer_step can be captured, and only for a step that refreshes no inverse roots");
  }
  return CallFailed(error == cudaErrorMemoryAllocation, call, cudaGetErrorName(error), error);
}

Status StatusOf(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return Status();
  return CallFailed(status == CUBLAS_STATUS_ALLOC_FAILED, call, cublasGetStatusName(status), status);
}

Status StatusOf(cusolverStatus_t status, const char* call) {
  if (status == CUSOLVER_STATUS_SUCCESS) return Status();
  return CallFailed(status == CUSOLVER_STATUS_ALLOC_FAILED, call, NameOf(status), status);
}

}  // namespace shampoo::cuda

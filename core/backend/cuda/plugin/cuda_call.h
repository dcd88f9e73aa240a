// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>

#include "core/base/status.h"

namespace shampoo::cuda {

// Converts a result of CUDA, cuBLAS or cuSOLVER to a Status whose message names the called function. call: the name of
// the called function, or the source code of the whole call. If memory is exhausted, the Status has Code::kNoMemory.
Status StatusOf(cudaError_t error, const char* call);
Status StatusOf(cublasStatus_t status, const char* call);
Status StatusOf(cusolverStatus_t status, const char* call);

}  // namespace shampoo::cuda

// Makes a call of CUDA, cuBLAS or cuSOLVER. If the call fails, returns the error from the enclosing function.
#define SHAMPOO_CUDA_TRY(call) SHAMPOO_RETURN_IF_ERROR(::shampoo::cuda::StatusOf((call), #call))

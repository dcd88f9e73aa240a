// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>

#include "core/base/status.h"

namespace shampoo::cuda {

// Converts the result of a call of CUDA's libraries to a status whose message names the call. If memory is
// exhausted, the code is kNoMemory.
Status StatusOf(cudaError_t error, const char* call);
Status StatusOf(cublasStatus_t status, const char* call);
Status StatusOf(cusolverStatus_t status, const char* call);

}  // namespace shampoo::cuda

// If a call of CUDA's libraries fails, returns its error from the enclosing function. The error message names the
// called function.
#define SHAMPOO_CUDA_TRY(call) SHAMPOO_RETURN_IF_ERROR(::shampoo::cuda::StatusOf((call), #call))

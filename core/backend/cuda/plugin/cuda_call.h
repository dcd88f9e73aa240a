// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>

#include "core/base/status.h"

namespace shampoo::cuda {

// What a call of CUDA's libraries returned as a status that names it; memory that ran out is kNoMemory.
Status StatusOf(cudaError_t error, const char* call);
Status StatusOf(cublasStatus_t status, const char* call);
Status StatusOf(cusolverStatus_t status, const char* call);

}  // namespace shampoo::cuda

// The text of the call is part of the error.
#define SHAMPOO_CUDA_TRY(call) SHAMPOO_RETURN_IF_ERROR(::shampoo::cuda::StatusOf((call), #call))

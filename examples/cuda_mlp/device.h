// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Finds the GPUs that libshampoo can use, allocates and copies GPU memory, and checks CUDA calls for errors.
#ifndef CUDA_MLP_DEVICE_H
#define CUDA_MLP_DEVICE_H

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// Exit with an error if a call returned an error. The error message contains `what`, the name of the operation.
void check_cuda(cudaError_t error, const char* what);
void check_cublas(cublasStatus_t status, const char* what);

// Returns the number of GPUs that libshampoo can use. If there is none, prints the reason and exits with status 77,
// which many test drivers treat as skipped.
int device_count(void);

// Allocates zero-initialized memory on the current GPU. Exits with an error instead of returning NULL.
void* device_allocate(size_t count, size_t size);

// Copy memory from the host to the GPU or back, in the order of the stream, and wait until the copy is done.
void device_upload(void* device, const void* host, size_t bytes, cudaStream_t stream);
void device_download(void* host, const void* device, size_t bytes, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif

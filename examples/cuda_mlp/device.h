// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A GPU: whether there is one that libshampoo can use, its memory, and the status of a call of CUDA.
#ifndef CUDA_MLP_DEVICE_H
#define CUDA_MLP_DEVICE_H

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// Ends the program where the call has failed. what: what was tried, for the message.
void check_cuda(cudaError_t error, const char* what);
void check_cublas(cublasStatus_t status, const char* what);

// The number of GPUs that libshampoo can use. Where that is none it says why, and ends the program with status 77: the
// tests of many build systems take that as skipped.
int device_count(void);

// Zeros in the memory of the current GPU. Never NULL: ends the program instead.
void* device_allocate(size_t count, size_t size);

// Copies between host and GPU, in the order of the stream, and waits for it.
void device_upload(void* device, const void* host, size_t bytes, cudaStream_t stream);
void device_download(void* host, const void* device, size_t bytes, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif

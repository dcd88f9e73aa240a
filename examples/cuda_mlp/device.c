// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <shampoo/shampoo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "status.h"

enum { kSkipped = 77 };

void check_cuda(cudaError_t error, const char* what) {
  if (error != cudaSuccess) fail("%s: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

void check_cublas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail("%s: %s", what, cublasGetStatusString(status));
}

static void skip(const char* why) {
  printf("skipped: libshampoo cannot use a GPU: %s\n", why);
  exit(kSkipped);
}

int device_count(void) {
  for (int32_t i = 0; i < shampoo_backend_count(); ++i) {
    shampoo_backend_info info = SHAMPOO_BACKEND_INFO_INIT;
    check(shampoo_backend_describe(i, &info), "backend");
    if (strcmp(info.name, "cuda") != 0) continue;
    if (!info.usable) skip(info.unavailable_reason);
    return info.device_count;
  }
  skip("this version has no backend named cuda");
  return 0;
}

void* device_allocate(size_t count, size_t size) {
  void* memory = NULL;
  if (cudaMalloc(&memory, count * size) != cudaSuccess) {
    fail("out of memory on the GPU: %zu elements of %zu bytes", count, size);
  }
  check_cuda(cudaMemset(memory, 0, count * size), "cudaMemset");
  check_cuda(cudaDeviceSynchronize(), "cudaMemset");  // non-blocking streams do not wait for cudaMemset
  return memory;
}

void device_upload(void* device, const void* host, size_t bytes, cudaStream_t stream) {
  check_cuda(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream), "copying to the GPU");
  check_cuda(cudaStreamSynchronize(stream), "copying to the GPU");
}

void device_download(void* host, const void* device, size_t bytes, cudaStream_t stream) {
  check_cuda(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream), "copying from the GPU");
  check_cuda(cudaStreamSynchronize(stream), "copying from the GPU");
}

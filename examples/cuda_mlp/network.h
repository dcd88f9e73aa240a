// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The network of ../c_mlp/mlp.h on a GPU: the same shapes in the same flat buffers, here in memory of the GPU. Products
// of matrices are cuBLAS's; the rest are kernels. All functions put work on the network's stream.
#ifndef CUDA_MLP_NETWORK_H
#define CUDA_MLP_NETWORK_H

#include "device.h"
#include "digits.h"
#include "mlp.h"

#ifdef __cplusplus
extern "C" {
#endif

// All images and labels, in memory of the GPU.
typedef struct {
  float* images;  // [train_count + test_count][64]
  int* labels;
} DeviceDigits;

typedef struct {
  int rows;  // the most images that are computed at once
  cudaStream_t stream;
  cublasHandle_t blas;
  float* params;   // [kValues]
  float* grads;    // [kValues]
  float* x;        // [rows][64], a batch
  int* labels;     // [rows]
  float* hidden1;  // [rows][128], outputs of the layers, kept for the way back
  float* hidden2;  // [rows][64]
  float* d1;       // gradients by those outputs, in the same shapes
  float* d2;
  float* d3;      // [rows][10], scores, then the gradient by them
  float* ones;    // [rows]
  float* losses;  // [rows], cross entropy of each image
  int* hits;      // [rows], 1: recognised
} DeviceMlp;

void device_digits_create(DeviceDigits* on_device, const Digits* digits, cudaStream_t stream);
void device_digits_free(DeviceDigits* on_device);

// Allocates a network for at most `rows` images at once on the current GPU; parameters are those given, in memory of
// the host.
void device_mlp_create(DeviceMlp* net, int rows, const float* params, cudaStream_t stream);
void device_mlp_free(DeviceMlp* net);

// The gradient of scale times the sum of the cross entropies of `count` images, into net->grads. rows [count], in
// memory of the GPU, tells which images; nothing is waited for.
void device_mlp_gradient(DeviceMlp* net, const DeviceDigits* digits, const int* rows, int count, float scale);

// The mean cross entropy of the images first ... first + count - 1; *correct receives how many are recognised. Waits.
double device_mlp_evaluate(DeviceMlp* net, const DeviceDigits* digits, int first, int count, int* correct);

#ifdef __cplusplus
}
#endif

#endif

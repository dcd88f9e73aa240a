// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The network of ../c_mlp/mlp.h on a GPU, with the same shapes and the same flat buffers. Matrix products use cuBLAS;
// the rest are kernels. All functions enqueue their work on the network's stream.
#ifndef CUDA_MLP_NETWORK_H
#define CUDA_MLP_NETWORK_H

#include "device.h"
#include "digits.h"
#include "mlp.h"

#ifdef __cplusplus
extern "C" {
#endif

// All images and labels, in GPU memory.
typedef struct {
  float* images;  // [train_count + test_count][64]
  int* labels;
} DeviceDigits;

typedef struct {
  int rows;  // largest number of images in a pass
  cudaStream_t stream;
  cublasHandle_t blas;
  float* params;   // [kValues]
  float* grads;    // [kValues]
  float* x;        // [rows][64], a batch
  int* labels;     // [rows]
  float* hidden1;  // [rows][128], outputs of the layers, kept for the backward pass
  float* hidden2;  // [rows][64]
  float* d1;       // gradients with respect to those outputs, in the same shapes
  float* d2;
  float* d3;      // [rows][10], scores, then their gradient
  float* ones;    // [rows]
  float* losses;  // [rows], cross entropy of each image
  int* hits;      // [rows], 1: classified correctly
} DeviceMlp;

void device_digits_create(DeviceDigits* on_device, const Digits* digits, cudaStream_t stream);
void device_digits_free(DeviceDigits* on_device);

// Allocates a network for passes of at most `rows` images on the current GPU, and copies the parameters from params in
// host memory.
void device_mlp_create(DeviceMlp* net, int rows, const float* params, cudaStream_t stream);
void device_mlp_free(DeviceMlp* net);

// Enqueues a forward and a backward pass over `count` images. net->grads receives the gradient of the loss, which is
// `scale` times the sum of the cross entropies. rows [count], in GPU memory, are the indices of the images.
void device_mlp_gradient(DeviceMlp* net, const DeviceDigits* digits, const int* rows, int count, float scale);

// Returns the mean cross entropy of images first ... first + count - 1. *correct receives how many are classified
// correctly. Waits for the result.
double device_mlp_evaluate(DeviceMlp* net, const DeviceDigits* digits, int first, int count, int* correct);

#ifdef __cplusplus
}
#endif

#endif

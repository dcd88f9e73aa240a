// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The network of ../c_mlp/mlp.h on a GPU, with parameters of the same shapes in flat buffers of the same layout. cuBLAS
// computes the matrix products, and kernels compute the rest. All work of a network is enqueued on its stream.
#ifndef CUDA_MLP_NETWORK_H
#define CUDA_MLP_NETWORK_H

#include "device.h"
#include "digits.h"
#include "mlp.h"

#ifdef __cplusplus
extern "C" {
#endif

// The images and labels of a Digits (digits.h), in GPU memory.
typedef struct {
  float* images;  // [train_count + test_count][64]
  int* labels;
} DeviceDigits;

typedef struct {
  int rows;  // largest number of images in a forward pass
  cudaStream_t stream;
  cublasHandle_t blas;
  float* params;   // [kValues]
  float* grads;    // [kValues]
  float* x;        // [rows][64], images of a batch
  int* labels;     // [rows]
  float* hidden1;  // [rows][128], outputs of the first layer, kept for the backward pass
  float* hidden2;  // [rows][64], outputs of the second layer
  float* d1;       // [rows][128], gradient with respect to hidden1, then with respect to the input of the first tanh
  float* d2;       // [rows][64], gradient with respect to hidden2, then with respect to the input of the second tanh
  float* d3;       // [rows][10], scores of the ten digits, then the gradient with respect to the scores
  float* ones;     // [rows], all 1: a product with this vector computes the gradient of a bias
  float* losses;   // [rows], cross entropy of each image
  int* hits;       // [rows], 1 if the image is classified correctly, otherwise 0
} DeviceMlp;

void device_digits_create(DeviceDigits* on_device, const Digits* digits, cudaStream_t stream);
void device_digits_free(DeviceDigits* on_device);

// Allocates a network on the current GPU for forward passes of at most `rows` images. Copies the initial parameters
// from params, which is in host memory.
void device_mlp_create(DeviceMlp* net, int rows, const float* params, cudaStream_t stream);
void device_mlp_free(DeviceMlp* net);

// Enqueues a forward and a backward pass over `count` images. The loss is `scale` times the sum of their cross
// entropies. net->grads receives the gradient of the loss. The argument `rows` [count], in GPU memory, has the indices
// of the images.
void device_mlp_gradient(DeviceMlp* net, const DeviceDigits* digits, const int* rows, int count, float scale);

// Returns the mean cross entropy of the images [first, first + count). *correct receives the number of these images
// that are classified correctly. Waits for the GPU.
double device_mlp_evaluate(DeviceMlp* net, const DeviceDigits* digits, int first, int count, int* correct);

#ifdef __cplusplus
}
#endif

#endif

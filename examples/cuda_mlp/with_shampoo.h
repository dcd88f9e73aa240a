// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The optimizer of libshampoo. All calls to the library are in with_shampoo.c, except shampoo_version(), the calls in
// ../common, and the calls that look for a GPU (device.h).
#ifndef CUDA_MLP_WITH_SHAMPOO_H
#define CUDA_MLP_WITH_SHAMPOO_H

#include <shampoo/shampoo.h>

#include "device.h"
#include "settings.h"

// A parameter: its shape, and its values and gradient in GPU memory, float32, row-major.
typedef struct {
  char name[32];
  int ndim;
  int64_t shape[2];
  int64_t begin, count;  // with shards, this GPU holds elements [begin, begin + count) of the flattened parameter
  float* param;
  float* grad;
} Tensor;

// Device and ranks of an optimizer.
typedef struct {
  int device;           // index of the GPU
  cudaStream_t stream;  // stream on which memory is allocated
  const float* lr;      // learning rate in GPU memory; every step reads it
  // Communicator of the ranks that hold the same parameters. NULL: only this rank holds them.
  const shampoo_comm_ops* replicas;
  // Communicator of the ranks that each hold a part of the same parameters. NULL: this rank holds whole parameters.
  const shampoo_comm_ops* shards;
} Placement;

typedef struct {
  shampoo_optimizer* optimizer;
  int64_t state_bytes;  // size of the state on the GPU
  int64_t sent_bytes;   // bytes that this rank sends per step
  char frequency[16];   // precondition_frequency, as a string
} WithShampoo;

// Creates an optimizer for the tensors, and binds their params and grads to it.
void with_shampoo_create(WithShampoo* shampoo, const Tensor* tensors, int count, const Settings* settings,
                         const Placement* placement);
void with_shampoo_free(WithShampoo* shampoo);

// Enqueues one step on the stream: reads the gradients and updates the parameters.
void with_shampoo_step(WithShampoo* shampoo, cudaStream_t stream);

// Waits for all steps, and returns the number of inverse roots that they computed.
double with_shampoo_roots(const WithShampoo* shampoo);

#endif

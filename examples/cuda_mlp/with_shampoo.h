// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Everything that this program does with libshampoo, but for the question whether there is a GPU (device.h).
#ifndef CUDA_MLP_WITH_SHAMPOO_H
#define CUDA_MLP_WITH_SHAMPOO_H

#include <shampoo/shampoo.h>

#include "device.h"
#include "settings.h"

// One parameter: its shape, and where it and its gradient are in memory of the GPU, float32, row-major.
typedef struct {
  char name[32];
  int ndim;
  int64_t shape[2];
  float* param;
  float* grad;
} Tensor;

// Where an optimizer works.
typedef struct {
  int device;                   // the GPU
  cudaStream_t stream;          // on which its memory is allocated
  const float* lr;              // the learning rate, in memory of the GPU: every step reads what is there by then
  int rank, world;              // among those that hold the same parameters; 0 and 1: alone
  const shampoo_comm_ops* ops;  // how those talk to each other; NULL where there is one rank
} Place;

typedef struct {
  shampoo_optimizer* optimizer;
  int64_t state_bytes;  // memory of the state on the GPU
  int64_t sent_bytes;   // what this rank sends in a step
  char frequency[16];   // new inverse roots every so many steps
} WithShampoo;

// Makes an optimizer for the tensors, bound to their buffers.
void with_shampoo_create(WithShampoo* shampoo, const Tensor* tensors, int count, const Settings* settings,
                         const Place* place);
void with_shampoo_free(WithShampoo* shampoo);

// One step, in the order of the stream: reads gradients and moves parameters. Nothing is waited for.
void with_shampoo_step(WithShampoo* shampoo, cudaStream_t stream);

// Inverse roots computed so far.
double with_shampoo_roots(const WithShampoo* shampoo);

#endif

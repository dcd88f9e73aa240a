// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Computes loss and gradient of a few sequences, on one thread.
#ifndef C_TRANSFORMER_NETWORK_H
#define C_TRANSFORMER_NETWORK_H

#include "model.h"

// Values that the forward pass of a layer stores for the backward pass. n is sequences * context.
typedef struct {
  real* in;       // [n][width], the residual stream before the layer
  real* norm1;    // [n][width], `in` after layer normalization
  real* stats1;   // [n][2], mean and 1 / standard deviation of each row of `in`
  real* qkv;      // [n][3 * width]
  real* weights;  // [sequences][heads][context][context], attention weights
  real* mixed;    // [n][width], output of the attention
  real* middle;   // [n][width], the residual stream between attention and MLP
  real* norm2;    // [n][width], `middle` after layer normalization
  real* stats2;   // [n][2], mean and 1 / standard deviation of each row of `middle`
  real* up;       // [n][4 * width]
  real* gelu;     // [n][4 * width]
} LayerMemory;

// Everything that a forward and a backward pass write, except the gradients of the parameters.
typedef struct {
  int sequences;  // largest number of sequences in a forward pass
  LayerMemory layers[kMaxLayers];
  real* last;       // [n][width], the residual stream after the last layer
  real* norm;       // [n][width], `last` after layer normalization
  real* stats;      // [n][2], mean and 1 / standard deviation of each row of `last`
  real* scores;     // [n][vocab]
  real* d_stream;   // [n][width], gradient with respect to the residual stream
  real* d_small;    // [n][width], scratch memory
  real* d_large;    // [n][4 * width], scratch memory
  real* d_weights;  // [context][context], scratch memory
} Memory;

// Allocates memory for forward and backward passes of at most `sequences` sequences.
void memory_create(Memory* memory, const Model* model, int sequences);
void memory_free(Memory* memory, const Model* model);

// Returns the sum of -log(probability) over all predicted characters of `sequences` texts. A text has context + 1
// characters. Each character except the first is predicted from the characters before it. If grads is not NULL,
// it is an array of model->values elements, to which the function adds scale times the gradient of the sum.
double network_loss(const Model* model, const real* params, Memory* memory, int sequences, const uint8_t* const* texts,
                    real scale, real* grads);

#endif

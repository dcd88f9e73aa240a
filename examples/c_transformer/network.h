// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The model at work: loss and gradient of a few sequences, on one thread.
#ifndef C_TRANSFORMER_NETWORK_H
#define C_TRANSFORMER_NETWORK_H

#include "model.h"

// What one layer keeps for the way back. n rows: sequences * context.
typedef struct {
  real* in;       // [n][width], the residual stream before the layer
  real* norm1;    // [n][width]
  real* stats1;   // [n][2]
  real* qkv;      // [n][3 width]
  real* weights;  // [sequences][heads][context][context]
  real* mixed;    // [n][width], what attention gives
  real* middle;   // [n][width], the stream between attention and MLP
  real* norm2;    // [n][width]
  real* stats2;   // [n][2]
  real* up;       // [n][4 width]
  real* gelu;     // [n][4 width]
} LayerMemory;

typedef struct {
  int sequences;  // the most that are computed at once
  LayerMemory layers[kMaxLayers];
  real* last;       // [n][width], the stream after the last layer
  real* norm;       // [n][width]
  real* stats;      // [n][2]
  real* scores;     // [n][vocab]
  real* d_stream;   // [n][width], gradient by the residual stream
  real* d_small;    // [n][width]
  real* d_large;    // [n][4 width]
  real* d_weights;  // [context][context]
} Memory;

// Memory for at most `sequences` sequences at once.
void memory_create(Memory* memory, const Model* model, int sequences);
void memory_free(Memory* memory, const Model* model);

// The sum, over all characters of `sequences` texts, of -log(probability of the next character). A text has context + 1
// characters: the last one is only foretold. Where grads [model->values] is not NULL, scale times the gradient of the
// sum is added to it.
double network_loss(const Model* model, const real* params, Memory* memory, int sequences, const uint8_t* const* texts,
                    real scale, real* grads);

#endif

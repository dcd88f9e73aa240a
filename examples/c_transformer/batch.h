// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Computes loss and gradient of a batch on all threads. Each thread computes the gradient of some of the sequences.
// Then each thread adds up the gradients from all threads for one part of the parameters.
#ifndef C_TRANSFORMER_BATCH_H
#define C_TRANSFORMER_BATCH_H

#include "network.h"
#include "pool.h"

typedef struct {
  const Model* model;
  Pool* pool;
  int threads;
  Memory* memories;  // [threads]
  real** grads;      // [threads][values], gradients of the sequences of each thread
  double* losses;    // [threads]
} Batch;

// Each thread processes `at_once` sequences at a time. `at_once` should be large enough for fast matrix products, but
// so small that the outputs of the layers stay in the cache.
void batch_create(Batch* batch, const Model* model, Pool* pool, int at_once);
void batch_free(Batch* batch);

// Returns the mean of -log(probability) over all predicted characters of `count` sequences. texts[i] has the
// context + 1 characters of sequence i. If grads is not NULL, writes the gradient of this mean to grads,
// an array of model->values elements.
double batch_loss(Batch* batch, const real* params, int count, const uint8_t* const* texts, real* grads);

#endif

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A batch on all threads. Each thread computes some of the sequences, then a part of the sum of the gradients.
#ifndef C_TRANSFORMER_BATCH_H
#define C_TRANSFORMER_BATCH_H

#include "network.h"
#include "pool.h"

typedef struct {
  const Model* model;
  Pool* pool;
  int threads;
  Memory* memories;  // [threads]
  real** grads;      // [threads][values]
  double* losses;    // [threads]
} Batch;

// Each thread computes `at_once` sequences at a time: enough for fast products, but few enough that the outputs of the
// layers stay in the cache.
void batch_create(Batch* batch, const Model* model, Pool* pool, int at_once);
void batch_free(Batch* batch);

// Returns the mean of -log(probability) per character over `count` texts of context + 1 characters. If grads is not
// NULL, writes the gradient to it: model->values elements.
double batch_loss(Batch* batch, const real* params, int count, const uint8_t* const* texts, real* grads);

#endif

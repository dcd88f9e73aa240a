// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A batch on all threads: every thread takes a share of the sequences, then a share of the sum of the gradients.
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

// A thread computes `at_once` sequences at a time: enough for fast products, few enough for what the layers keep to
// stay near the processor.
void batch_create(Batch* batch, const Model* model, Pool* pool, int at_once);
void batch_free(Batch* batch);

// The mean of -log(probability) by character over `count` texts of context + 1 characters, and, where grads [values] is
// not NULL, the gradient of it.
double batch_loss(Batch* batch, const real* params, int count, const uint8_t* const* texts, real* grads);

#endif

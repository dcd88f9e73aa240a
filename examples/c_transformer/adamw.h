// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// AdamW, the baseline: Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101). A step is one pass
// over parameters, gradients and both moments. It uses vector instructions and all threads of the pool.
#ifndef C_TRANSFORMER_ADAMW_H
#define C_TRANSFORMER_ADAMW_H

#include "model.h"
#include "pool.h"

typedef struct {
  double beta1, beta2, epsilon, weight_decay;
  const Model* model;
  Pool* pool;
  int step;
  real* first;   // first moment, model->values elements: moving average of the gradient
  real* second;  // second moment, model->values elements: moving average of the squared gradient
} AdamW;

// Uses beta1 0.9, beta2 0.95 and epsilon 1e-8. Matrices have weight decay; gains and biases have none.
void adamw_create(AdamW* adamw, const Model* model, Pool* pool, double weight_decay);
void adamw_free(AdamW* adamw);

// Makes one step: reads grads and updates params, which have model->values elements each.
void adamw_step(AdamW* adamw, double lr, real* params, const real* grads);

#endif

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// AdamW, to which Shampoo is compared: Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101).
#ifndef EXAMPLES_ADAMW_H
#define EXAMPLES_ADAMW_H

#include "real.h"

typedef struct {
  double lr, beta1, beta2, epsilon, weight_decay;
  int step;
  int count;     // number of parameter values
  real* first;   // [count], first moment: moving average of the gradient
  real* second;  // [count], second moment: moving average of the squared gradient
} AdamW;

// Uses beta1 0.9, beta2 0.999 and epsilon 1e-8.
void adamw_create(AdamW* adamw, int count, double lr, double weight_decay);
void adamw_free(AdamW* adamw);

// Makes one step: reads grads [count] and updates params [count].
void adamw_step(AdamW* adamw, real* params, const real* grads);

#endif

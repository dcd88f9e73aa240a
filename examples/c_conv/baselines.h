// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The yardsticks: SGD with Nesterov's momentum, and AdamW (Loshchilov and Hutter, arXiv 1711.05101). Weight decay is
// decoupled in both.
#ifndef C_CONV_BASELINES_H
#define C_CONV_BASELINES_H

#include "real.h"

typedef struct {
  double lr, momentum, weight_decay;
  int count;      // number of parameter values
  real* average;  // [count], momentum: a sum of the directions, older ones counting less
} Sgd;

// Momentum 0.9.
void sgd_create(Sgd* sgd, int count, double lr, double weight_decay);
void sgd_free(Sgd* sgd);
void sgd_step(Sgd* sgd, real* params, const real* grads);

typedef struct {
  double lr, beta1, beta2, epsilon, weight_decay;
  int step;
  int count;     // number of parameter values
  real* first;   // [count], moving average of the gradient
  real* second;  // [count], moving average of its square
} AdamW;

// beta1 0.9, beta2 0.999, epsilon 1e-8.
void adamw_create(AdamW* adamw, int count, double lr, double weight_decay);
void adamw_free(AdamW* adamw);
void adamw_step(AdamW* adamw, real* params, const real* grads);

#endif

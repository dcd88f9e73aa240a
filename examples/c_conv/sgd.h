// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// SGD with Nesterov momentum and weight decay, a baseline for Shampoo. The weight decay is added to the gradient, as in
// torch.optim.SGD.
#ifndef C_CONV_SGD_H
#define C_CONV_SGD_H

#include "real.h"

typedef struct {
  double lr, momentum, weight_decay;
  int count;       // number of parameter values
  real* velocity;  // [count], exponentially weighted sum of the gradients, including the weight decay
} Sgd;

// Uses momentum 0.9.
void sgd_create(Sgd* sgd, int count, double lr, double weight_decay);
void sgd_free(Sgd* sgd);
void sgd_step(Sgd* sgd, real* params, const real* grads);

#endif

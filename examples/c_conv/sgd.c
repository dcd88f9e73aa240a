// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "sgd.h"

#include <stdlib.h>

#include "check.h"

void sgd_create(Sgd* sgd, int count, double lr, double weight_decay) {
  sgd->lr = lr;
  sgd->momentum = 0.9;
  sgd->weight_decay = weight_decay;
  sgd->count = count;
  sgd->velocity = allocate((size_t)count, sizeof(real));
}

void sgd_free(Sgd* sgd) { free(sgd->velocity); }

void sgd_step(Sgd* sgd, real* params, const real* grads) {
  const real lr = (real)sgd->lr, momentum = (real)sgd->momentum, decay = (real)sgd->weight_decay;
  for (int i = 0; i < sgd->count; ++i) {
    const real direction = grads[i] + decay * params[i];
    sgd->velocity[i] = momentum * sgd->velocity[i] + direction;
    params[i] -= lr * (direction + momentum * sgd->velocity[i]);
  }
}

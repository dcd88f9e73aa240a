// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "adamw.h"

#include <stdlib.h>
#include <tgmath.h>

#include "check.h"

void adamw_create(AdamW* adamw, int count, double lr, double weight_decay) {
  adamw->lr = lr;
  adamw->beta1 = 0.9;
  adamw->beta2 = 0.999;
  adamw->epsilon = 1e-8;
  adamw->weight_decay = weight_decay;
  adamw->step = 0;
  adamw->count = count;
  adamw->first = allocate((size_t)count, sizeof(real));
  adamw->second = allocate((size_t)count, sizeof(real));
}

void adamw_free(AdamW* adamw) {
  free(adamw->first);
  free(adamw->second);
}

void adamw_step(AdamW* adamw, real* params, const real* grads) {
  adamw->step += 1;
  // Bias correction, because the moving averages `first` and `second` start at 0.
  const double correction1 = 1 - pow(adamw->beta1, adamw->step), correction2 = 1 - pow(adamw->beta2, adamw->step);
  const real beta1 = (real)adamw->beta1, beta2 = (real)adamw->beta2, epsilon = (real)adamw->epsilon;
  const real step_size = (real)(adamw->lr / correction1), root_scale = (real)(1 / sqrt(correction2));
  const real keep = (real)(1 - adamw->lr * adamw->weight_decay);
  for (int i = 0; i < adamw->count; ++i) {
    const real g = grads[i];
    adamw->first[i] = beta1 * adamw->first[i] + (1 - beta1) * g;
    adamw->second[i] = beta2 * adamw->second[i] + (1 - beta2) * g * g;
    params[i] = keep * params[i] - step_size * adamw->first[i] / (sqrt(adamw->second[i]) * root_scale + epsilon);
  }
}

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "adamw.h"

#include <stdlib.h>
#include <tgmath.h>

#include "check.h"

typedef struct {
  AdamW* adamw;
  double lr;
  real* params;
  const real* grads;
} Work;

void adamw_create(AdamW* adamw, const Model* model, Pool* pool, double weight_decay) {
  adamw->beta1 = 0.9;
  adamw->beta2 = 0.95;
  adamw->epsilon = 1e-8;
  adamw->weight_decay = weight_decay;
  adamw->model = model;
  adamw->pool = pool;
  adamw->step = 0;
  adamw->first = allocate(model->values, sizeof(real));
  adamw->second = allocate(model->values, sizeof(real));
}

void adamw_free(AdamW* adamw) {
  free(adamw->first);
  free(adamw->second);
}

static void move(const AdamW* adamw, double lr, double weight_decay, int64_t count, real* restrict params,
                 const real* restrict grads, real* restrict first, real* restrict second) {
  // Bias correction, because the moving averages `first` and `second` start at 0.
  const double correction1 = 1 - pow(adamw->beta1, adamw->step), correction2 = 1 - pow(adamw->beta2, adamw->step);
  const real beta1 = (real)adamw->beta1, beta2 = (real)adamw->beta2, epsilon = (real)adamw->epsilon;
  const real step_size = (real)(lr / correction1), root_scale = (real)(1 / sqrt(correction2));
  const real keep = (real)(1 - lr * weight_decay);
  for (int64_t i = 0; i < count; ++i) {
    const real g = grads[i];
    first[i] = beta1 * first[i] + (1 - beta1) * g;
    second[i] = beta2 * second[i] + (1 - beta2) * g * g;
    params[i] = keep * params[i] - step_size * first[i] / (sqrt(second[i]) * root_scale + epsilon);
  }
}

// Updates part t of the flat buffers, one parameter after another, because only matrices have weight decay.
static void share(void* argument, int64_t t) {
  const Work* work = argument;
  const AdamW* adamw = work->adamw;
  const int64_t values = (int64_t)adamw->model->values, threads = pool_threads(adamw->pool);
  const int64_t begin = part_begin(values, threads, t), end = part_begin(values, threads, t + 1);
  for (int i = 0; i < adamw->model->tensor_count; ++i) {
    const Tensor* tensor = &adamw->model->tensors[i];
    const int64_t offset = (int64_t)tensor->offset, after = offset + (int64_t)tensor->count;
    const int64_t from = offset > begin ? offset : begin, to = after < end ? after : end;
    if (from >= to) continue;
    move(adamw, work->lr, tensor->ndim > 1 ? adamw->weight_decay : 0, to - from, work->params + from,
         work->grads + from, adamw->first + from, adamw->second + from);
  }
}

void adamw_step(AdamW* adamw, double lr, real* params, const real* grads) {
  Work work = {adamw, lr, params, grads};
  adamw->step += 1;
  pool_run(adamw->pool, share, &work, pool_threads(adamw->pool));
}

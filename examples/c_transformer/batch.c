// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "batch.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

typedef struct {
  Batch* batch;
  const real* params;
  int count;
  const uint8_t* const* texts;
  real* grads;
} Work;

void batch_create(Batch* batch, const Model* model, Pool* pool, int at_once) {
  batch->model = model;
  batch->pool = pool;
  batch->threads = pool_threads(pool);
  batch->memories = allocate((size_t)batch->threads, sizeof(Memory));
  batch->grads = allocate((size_t)batch->threads, sizeof(real*));
  batch->losses = allocate((size_t)batch->threads, sizeof(double));
  for (int t = 0; t < batch->threads; ++t) {
    memory_create(&batch->memories[t], model, at_once);
    batch->grads[t] = allocate(model->values, sizeof(real));
  }
}

void batch_free(Batch* batch) {
  for (int t = 0; t < batch->threads; ++t) {
    memory_free(&batch->memories[t], batch->model);
    free(batch->grads[t]);
  }
  free(batch->losses);
  free(batch->grads);
  free(batch->memories);
}

static void share_of_sequences(void* argument, int64_t t) {
  const Work* work = argument;
  Batch* batch = work->batch;
  const int threads = batch->threads, end = (int)part_begin(work->count, threads, t + 1);
  const real scale = 1 / ((real)work->count * (real)batch->model->context);
  real* grads = work->grads != NULL ? batch->grads[t] : NULL;
  if (grads != NULL) memset(grads, 0, sizeof(real) * batch->model->values);
  batch->losses[t] = 0;
  for (int s = (int)part_begin(work->count, threads, t), n; s < end; s += n) {
    n = end - s < batch->memories[t].sequences ? end - s : batch->memories[t].sequences;
    batch->losses[t] += network_loss(batch->model, work->params, &batch->memories[t], n, work->texts + s, scale, grads);
  }
}

static void share_of_sum(void* argument, int64_t t) {
  const Work* work = argument;
  const int threads = work->batch->threads;
  const int64_t values = (int64_t)work->batch->model->values;
  const int64_t begin = part_begin(values, threads, t), end = part_begin(values, threads, t + 1);
  memcpy(work->grads + begin, work->batch->grads[0] + begin, sizeof(real) * (size_t)(end - begin));
  for (int other = 1; other < threads; ++other) {
    const real* grads = work->batch->grads[other];
    for (int64_t i = begin; i < end; ++i) work->grads[i] += grads[i];
  }
}

double batch_loss(Batch* batch, const real* params, int count, const uint8_t* const* texts, real* grads) {
  Work work = {batch, params, count, texts, grads};
  double loss = 0;
  pool_run(batch->pool, share_of_sequences, &work, batch->threads);
  if (grads != NULL) pool_run(batch->pool, share_of_sum, &work, batch->threads);
  for (int t = 0; t < batch->threads; ++t) loss += batch->losses[t];
  return loss / ((double)count * batch->model->context);
}

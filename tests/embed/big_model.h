// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#ifndef SHAMPOO_TESTS_EMBED_BIG_MODEL_H
#define SHAMPOO_TESTS_EMBED_BIG_MODEL_H

#include <string.h>

#include "tests/embed/require.h"
#include "tests/embed/trainer.h"

// An optimizer for one float32 matrix, for tests that measure memory. Keys that the caller does not set have the values
// of the preset shampoo_2024.
typedef struct big_model {
  const api* functions;
  shampoo_optimizer* optimizer;
  int64_t state_bytes;
  int64_t workspace_bytes;
  int64_t total_bytes;
  int64_t elements;
  float* param;
  float* grad;
} big_model;

static inline void big_model_begin(big_model* m, const api* f, const setting* settings, int64_t rows, int64_t columns,
                                   int32_t threads, const shampoo_optimizer_desc* desc) {
  const param_shape shape = {"matrix", 2, {rows, columns, 0, 0}, 0, 0};
  const workload work = {settings, NULL, &shape, 1, SHAMPOO_F32, threads};
  memset(m, 0, sizeof *m);
  m->functions = f;
  m->elements = rows * columns;
  m->param = malloc((size_t)m->elements * sizeof(float));
  m->grad = malloc((size_t)m->elements * sizeof(float));
  REQUIRE(m->param != NULL && m->grad != NULL, "no memory");
  for (int64_t i = 0; i < m->elements; ++i) {
    m->param[i] = (float)(i % 7) - 3;
    m->grad[i] = (float)((i * 7919) % 101) / 50 - 1;
  }
  shampoo_plan* const plan = trainer_plan(f, &work);
  REQUIRE_OK(f, f->plan_bytes(plan, 0, "state", &m->state_bytes));
  REQUIRE_OK(f, f->plan_bytes(plan, 0, "workspace", &m->workspace_bytes));
  REQUIRE_OK(f, f->plan_bytes(plan, 0, "total", &m->total_bytes));
  REQUIRE(m->total_bytes == m->state_bytes + m->workspace_bytes, "total %lld, state %lld, workspace %lld",
          (long long)m->total_bytes, (long long)m->state_bytes, (long long)m->workspace_bytes);
  REQUIRE_OK(f, f->optimizer_create(&m->optimizer, plan, desc));
  f->plan_destroy(plan);
  shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
  buffers.param = m->param;
  buffers.grad = m->grad;
  buffers.out = m->param;
  REQUIRE_OK(f, f->optimizer_bind(m->optimizer, 0, 1, &buffers));
}

static inline void big_model_step(big_model* m, int steps) {
  for (int s = 0; s < steps; ++s) REQUIRE_OK(m->functions, m->functions->optimizer_step(m->optimizer, NULL));
}

static inline void big_model_end(big_model* m) {
  m->functions->optimizer_destroy(m->optimizer);
  free(m->param);
  free(m->grad);
}

#endif

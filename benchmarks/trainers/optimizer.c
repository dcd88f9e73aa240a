// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "status.h"

static shampoo_config* parse(const char* options) {
  shampoo_config* config;
  check(shampoo_config_create(&config), "config");
  check(shampoo_config_parse(config, options), options);
  return config;
}

/* Embeddings and output layers are the ends of the model. Method::rest applies to them and to vectors. */
static int group_of(const BoundTensor* tensor) {
  if (tensor->ndim < 2) return kVectors;
  return tensor->is_rest ? kEnds : kInside;
}

static void add_param(shampoo_plan* plan, const BoundTensor* tensor) {
  shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
  desc.name = tensor->name;
  desc.ndim = tensor->ndim;
  desc.stack_dims = tensor->stacked;
  for (int d = 0; d < tensor->ndim; ++d) desc.shape[d] = tensor->shape[d];
  desc.param_dtype = desc.grad_dtype = sizeof(real) == sizeof(double) ? SHAMPOO_F64 : SHAMPOO_F32;
  desc.group = group_of(tensor);
  check(shampoo_plan_add_param(plan, &desc, NULL), tensor->name);
}

static void bind(Optimizer* optimizer, int count, const BoundTensor* tensors) {
  shampoo_buffers* buffers = allocate((size_t)count, sizeof *buffers);
  for (int t = 0; t < count; ++t) {
    const shampoo_buffers empty = SHAMPOO_BUFFERS_INIT;
    buffers[t] = empty;
    buffers[t].param = buffers[t].out = tensors[t].param;
    buffers[t].grad = tensors[t].grad;
  }
  check(shampoo_optimizer_bind(optimizer->handle, 0, count, buffers), "bind");
  free(buffers);
}

void optimizer_create(Optimizer* optimizer, const Method* method, int count, const BoundTensor* tensors,
                      const shampoo_executor* executor, int threads) {
  shampoo_config* inside = parse(method->options);
  shampoo_config* ends = parse(method->rest != NULL ? method->rest : method->options);
  shampoo_config* vectors;
  check(shampoo_config_clone(&vectors, ends), "config");
  check(shampoo_config_set_f64(vectors, "weight_decay", 0), "weight_decay");

  shampoo_plan* plan;
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  plan_desc.threads = threads;
  check(shampoo_plan_create(&plan, inside, &plan_desc), "plan");
  check(shampoo_plan_add_group(plan, ends, NULL), "group");
  check(shampoo_plan_add_group(plan, vectors, NULL), "group");
  for (int t = 0; t < count; ++t) add_param(plan, &tensors[t]);
  check(shampoo_plan_finish(plan), "plan");
  check(shampoo_plan_bytes(plan, 0, "state", &optimizer->state_bytes), "plan");

  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  desc.executor = executor;
  check(shampoo_optimizer_create(&optimizer->handle, plan, &desc), "optimizer");
  for (int32_t group = 0; group < kOptimizerGroups; ++group) {
    check(shampoo_optimizer_get(optimizer->handle, group, "lr", &optimizer->peak[group]), "lr");
  }
  bind(optimizer, count, tensors);
  shampoo_plan_destroy(plan);
  shampoo_config_destroy(vectors);
  shampoo_config_destroy(ends);
  shampoo_config_destroy(inside);
}

void optimizer_free(Optimizer* optimizer) { shampoo_optimizer_destroy(optimizer->handle); }

int optimizer_step(Optimizer* optimizer, double share) {
  for (int32_t group = 0; group < kOptimizerGroups; ++group) {
    check(shampoo_optimizer_set(optimizer->handle, group, "lr", share * optimizer->peak[group]), "lr");
  }
  const shampoo_status status = shampoo_optimizer_step(optimizer->handle, NULL);
  if (status == SHAMPOO_E_NUMERIC) return 0;
  check(status, "step");
  return 1;
}

double schedule_share(int step, int steps, int warmup) {
  if (step < warmup) return (step + 1.0) / warmup;
  return 0.5 * (1 + cos(3.14159265358979323846 * (step - warmup) / (steps - warmup)));
}

void method_list_add(void* list, const char* options) {
  MethodList* methods = list;
  if (methods->count == kMaxMethods) fail("--optimizer is passed too often; expected at most %d times", kMaxMethods);
  methods->methods[methods->count++] = (Method){.options = options};
}

void method_list_set_rest(void* list, const char* options) {
  MethodList* methods = list;
  if (methods->count == 0) fail("--rest comes before --optimizer; expected --rest after the --optimizer of its method");
  methods->methods[methods->count - 1].rest = options;
}

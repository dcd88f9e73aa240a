// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "with_shampoo.h"

#include "check.h"
#include "status.h"

static void add_param(shampoo_plan* plan, const MlpTensor* tensor, int32_t expected_index) {
  shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
  int32_t index;
  desc.name = tensor->name;
  desc.ndim = tensor->ndim;
  for (int d = 0; d < tensor->ndim; ++d) desc.shape[d] = tensor->shape[d];
  desc.param_dtype = desc.grad_dtype = sizeof(real) == sizeof(double) ? SHAMPOO_F64 : SHAMPOO_F32;
  check(shampoo_plan_add_param(plan, &desc, &index), tensor->name);
  if (index != expected_index) fail("parameter %s has index %d, not %d", tensor->name, (int)index, (int)expected_index);
}

void with_shampoo_create(WithShampoo* shampoo, const Mlp* net, const Settings* settings) {
  // 1. The hyper-parameters.
  shampoo_config* config;
  check(shampoo_config_create(&config), "config");
  settings_apply(settings, config);

  // 2. The plan, from the shapes of the parameters.
  shampoo_plan* plan;
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  check(shampoo_plan_create(&plan, config, &plan_desc), "plan");
  for (int t = 0; t < kTensors; ++t) add_param(plan, &mlp_tensors[t], t);
  check(shampoo_plan_finish(plan), "plan");
  check(shampoo_plan_bytes(plan, 0, "state", &shampoo->state_bytes), "plan");

  // 3. The optimizer. Its creation allocates all memory; steps allocate nothing.
  shampoo_optimizer_desc optimizer_desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  check(shampoo_optimizer_create(&shampoo->optimizer, plan, &optimizer_desc), "optimizer");
  check(shampoo_optimizer_get(shampoo->optimizer, 0, "lr", &shampoo->lr), "lr");

  // 4. The buffers of parameters and gradients. Their addresses never change, so the buffers are bound only once.
  shampoo_buffers buffers[kTensors];
  for (int t = 0; t < kTensors; ++t) {
    const shampoo_buffers empty = SHAMPOO_BUFFERS_INIT;
    buffers[t] = empty;
    buffers[t].param = buffers[t].out = net->params + mlp_tensors[t].offset;
    buffers[t].grad = net->grads + mlp_tensors[t].offset;
  }
  check(shampoo_optimizer_bind(shampoo->optimizer, 0, kTensors, buffers), "bind");

  shampoo_plan_destroy(plan);
  shampoo_config_destroy(config);
}

void with_shampoo_free(WithShampoo* shampoo) { shampoo_optimizer_destroy(shampoo->optimizer); }

void with_shampoo_step(WithShampoo* shampoo) { check(shampoo_optimizer_step(shampoo->optimizer, NULL), "step"); }

void with_shampoo_set_lr(WithShampoo* shampoo, double lr) {
  check(shampoo_optimizer_set(shampoo->optimizer, 0, "lr", lr), "lr");
}

double with_shampoo_roots(const WithShampoo* shampoo) {
  double roots;
  check(shampoo_optimizer_stat(shampoo->optimizer, "root_computed", &roots), "root_computed");
  return roots;
}

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "with_shampoo.h"

#include <stdio.h>

#include "status.h"

static void apply_options(shampoo_config* config, const Options* options) {
  check(shampoo_config_set_f64(config, "lr", options->lr), "--lr");
  check(shampoo_config_set_f64(config, "weight_decay", options->weight_decay), "--weight-decay");
  check(shampoo_config_set_i64(config, "threads", options->threads), "--threads");
  settings_apply(&options->settings, config);
}

static void add_param(shampoo_plan* plan, const NetworkTensor* tensor) {
  shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
  desc.name = tensor->name;
  desc.ndim = tensor->ndim;
  for (int d = 0; d < tensor->ndim; ++d) desc.shape[d] = tensor->shape[d];
  desc.param_dtype = desc.grad_dtype = SHAMPOO_F32;
  check(shampoo_plan_add_param(plan, &desc, NULL), tensor->name);
}

void with_shampoo_create(WithShampoo* shampoo, const Network* net, const Options* options) {
  // 1. The hyper-parameters.
  shampoo_config* config;
  check(shampoo_config_create(&config), "config");
  apply_options(config, options);

  // 2. The plan, from the shapes of the parameters. The plan numbers the parameters 0, 1, ... as they are added.
  shampoo_plan* plan;
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  check(shampoo_plan_create(&plan, config, &plan_desc), "plan");
  for (int t = 0; t < kTensors; ++t) add_param(plan, &network_tensors[t]);
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
    buffers[t].param = buffers[t].out = net->params + network_tensors[t].offset;
    buffers[t].grad = net->grads + network_tensors[t].offset;
  }
  check(shampoo_optimizer_bind(shampoo->optimizer, 0, kTensors, buffers), "bind");

  shampoo_plan_destroy(plan);
  shampoo_config_destroy(config);
}

void with_shampoo_free(WithShampoo* shampoo) { shampoo_optimizer_destroy(shampoo->optimizer); }

int with_shampoo_step(WithShampoo* shampoo) {
  const shampoo_status status = shampoo_optimizer_step(shampoo->optimizer, NULL);
  if (status == SHAMPOO_E_NUMERIC) {
    printf("\n%s\n", shampoo_last_error());
    return 0;
  }
  check(status, "step");
  return 1;
}

void with_shampoo_set_lr(WithShampoo* shampoo, double lr) {
  check(shampoo_optimizer_set(shampoo->optimizer, 0, "lr", lr), "lr");
}

double with_shampoo_roots(const WithShampoo* shampoo) {
  double roots;
  check(shampoo_optimizer_stat(shampoo->optimizer, "root_computed", &roots), "root_computed");
  return roots;
}

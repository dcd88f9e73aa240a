// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "with_shampoo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "progress.h"
#include "status.h"

// The library may call this function on several threads at once. One fprintf call prints a whole message, so messages
// do not mix.
static void print_message(void* user, int32_t level, const char* message) {
  static const char* const levels[] = {"error", "warning", "information", "debugging"};
  (void)user;
  clear_progress();
  fprintf(stderr, "libshampoo, %s: %s\n", levels[level], message);
}

void with_shampoo_log(int level) { check(shampoo_set_log(print_message, NULL, level), "log"); }

// Adds the groups kBiases and kLastWeight. The config of each of the two groups is a copy of `config` with one
// change. kHiddenWeights is not added: it is group 0, which every plan has. The config of group 0 is the config with
// which the plan was created.
static void add_groups(shampoo_plan* plan, const shampoo_config* config) {
  for (int g = kHiddenWeights + 1; g < kGroups; ++g) {
    shampoo_config* own;
    int32_t number;
    check(shampoo_config_clone(&own, config), "config");
    if (g == kBiases) {
      check(shampoo_config_set_f64(own, "weight_decay", 0), "weight_decay of biases");
    } else {
      const double lr = strtod(shampoo_config_get(config, "lr"), NULL);
      check(shampoo_config_set_f64(own, "lr", lr / 2), "lr of the last layer");
    }
    check(shampoo_plan_add_group(plan, own, &number), "group");
    if (number != g) fail("group %d of the program has number %d in the plan", g, (int)number);
    shampoo_config_destroy(own);
  }
}

static void add_param(shampoo_plan* plan, int t) {
  shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
  desc.name = tensors[t].name;  // used in checkpoints and messages
  desc.ndim = tensors[t].ndim;
  for (int d = 0; d < tensors[t].ndim; ++d) desc.shape[d] = tensors[t].shape[d];
  desc.param_dtype = SHAMPOO_F32;
  desc.grad_dtype = SHAMPOO_F16;
  desc.group = t % 2 == 1 ? kBiases : t == kTensors - 2 ? kLastWeight : kHiddenWeights;
  check(shampoo_plan_add_param(plan, &desc, NULL), tensors[t].name);
}

void with_shampoo_create(WithShampoo* shampoo, const Network* net, const Settings* settings) {
  // 1. The hyper-parameters.
  shampoo_config* config;
  check(shampoo_config_create(&config), "config");
  settings_apply(settings, config);
  if (strcmp(shampoo_config_get(config, "on_nonfinite"), "error") != 0) {
    fail("on_nonfinite must be \"error\": this program reduces the loss scale only after a rejected step");
  }

  // 2. The plan, from the groups and the shapes of the parameters. The plan predicts the memory of the optimizer. A
  // program that is short of memory could make another plan here, with a smaller max_preconditioner_dim.
  shampoo_plan* plan;
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  check(shampoo_plan_create(&plan, config, &plan_desc), "plan");
  add_groups(plan, config);
  for (int t = 0; t < kTensors; ++t) add_param(plan, t);
  check(shampoo_plan_finish(plan), "plan");
  check(shampoo_plan_bytes(plan, -1, "state", &shampoo->state_bytes), "plan");
  check(shampoo_plan_bytes(plan, -1, "workspace", &shampoo->workspace_bytes), "plan");

  // 3. The optimizer. Its creation allocates all memory; steps allocate nothing.
  shampoo_optimizer_desc optimizer_desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  check(shampoo_optimizer_create(&shampoo->optimizer, plan, &optimizer_desc), "optimizer");
  for (int g = 0; g < kGroups; ++g) check(shampoo_optimizer_get(shampoo->optimizer, g, "lr", &shampoo->lr[g]), "lr");

  // 4. The buffers of parameters and gradients. Their addresses never change, so the buffers are bound only once.
  for (int t = 0; t < kTensors; ++t) {
    shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
    buffers.param = buffers.out = net->params + tensors[t].offset;
    buffers.grad = net->grads + tensors[t].offset;
    check(shampoo_optimizer_bind(shampoo->optimizer, t, 1, &buffers), tensors[t].name);
  }
  shampoo_plan_destroy(plan);
  shampoo_config_destroy(config);
}

void with_shampoo_free(WithShampoo* shampoo) { shampoo_optimizer_destroy(shampoo->optimizer); }

void with_shampoo_prepare(WithShampoo* shampoo, double share, double loss_scale) {
  for (int g = 0; g < kGroups; ++g) {
    check(shampoo_optimizer_set(shampoo->optimizer, g, "lr", share * shampoo->lr[g]), "lr");
    check(shampoo_optimizer_set(shampoo->optimizer, g, "gradient_scale", 1 / loss_scale), "gradient_scale");
  }
}

int with_shampoo_step(WithShampoo* shampoo) {
  const shampoo_status status = shampoo_optimizer_step(shampoo->optimizer, NULL);
  if (status != SHAMPOO_E_NUMERIC) check(status, "step");  // exits after any other error
  return status == SHAMPOO_OK;
}

double with_shampoo_stat(const WithShampoo* shampoo, const char* key) {
  double value;
  check(shampoo_optimizer_stat(shampoo->optimizer, key, &value), key);
  return value;
}

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "with_shampoo.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "status.h"

// Parameter groups. Only matrices have weight decay. Vectors (gains and biases) have none.
enum { kMatrices, kVectors, kGroups };

// Returns the role of a parameter. Roles are set only for Muon: the library then updates the embeddings and the output
// layer with Adam. For the other methods, this program sets no roles, so that they precondition all matrices.
static int32_t role_of(const Tensor* tensor) {
  if (strstr(tensor->name, "embedding") != NULL) return SHAMPOO_EMBEDDING;
  return strcmp(tensor->name, "output") == 0 ? SHAMPOO_HEAD : SHAMPOO_HIDDEN;
}

static void add_param(shampoo_plan* plan, const Tensor* tensor, int has_role) {
  shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
  desc.name = tensor->name;
  desc.ndim = tensor->ndim;
  desc.stack_dims = tensor->stacked;  // stacked matrices (query, key, value) have separate factor matrices
  for (int d = 0; d < tensor->ndim; ++d) desc.shape[d] = tensor->shape[d];
  desc.param_dtype = desc.grad_dtype = sizeof(real) == sizeof(double) ? SHAMPOO_F64 : SHAMPOO_F32;
  desc.group = tensor->ndim > 1 ? kMatrices : kVectors;
  if (has_role) desc.role = role_of(tensor);
  check(shampoo_plan_add_param(plan, &desc, NULL), tensor->name);
}

void with_shampoo_create(WithShampoo* shampoo, const Model* model, Pool* pool, real* params, const real* grads,
                         const char* preset, const Settings* settings, int frequency, double lr) {
  // 1. The hyper-parameters.
  shampoo_config *config, *vectors;
  check(shampoo_config_create(&config), "config");
  if (preset != NULL) check(shampoo_config_set_str(config, "preset", preset), "preset");
  settings_apply(settings, config);
  if (frequency > 0) check(shampoo_config_set_i64(config, "precondition_frequency", frequency), "frequency");
  // Each step sets lr again. With Muon, Adam's learning rate is adam_lr * lr / peak_lr. By default, peak_lr is the lr
  // that is set here.
  check(shampoo_config_set_f64(config, "lr", lr), "lr");
  check(shampoo_config_clone(&vectors, config), "config");
  check(shampoo_config_set_f64(vectors, "weight_decay", 0), "weight_decay");

  // 2. The plan, from the shapes of the parameters, in the order of the model's table.
  shampoo_plan* plan;
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  plan_desc.threads = pool_threads(pool);
  check(shampoo_plan_create(&plan, config, &plan_desc), "plan");
  check(shampoo_plan_add_group(plan, vectors, NULL), "group");
  const int has_roles = preset != NULL && strcmp(preset, "muon") == 0;
  for (int t = 0; t < model->tensor_count; ++t) add_param(plan, &model->tensors[t], has_roles);
  check(shampoo_plan_finish(plan), "plan");
  check(shampoo_plan_bytes(plan, 0, "state", &shampoo->state_bytes), "plan");
  check(shampoo_plan_block_count(plan, &shampoo->blocks), "plan");

  // 3. The optimizer. All memory is allocated here; steps allocate nothing. Steps run on the threads of `pool`.
  shampoo_optimizer_desc optimizer_desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  shampoo_executor executor = SHAMPOO_EXECUTOR_INIT;
  executor.user = pool;
  executor.threads = pool_threads(pool);
  executor.parallel_for = pool_run;
  optimizer_desc.executor = &executor;
  check(shampoo_optimizer_create(&shampoo->optimizer, plan, &optimizer_desc), "optimizer");

  // 4. The buffers of parameters and gradients. Their addresses never change, so the buffers are bound only once.
  shampoo_buffers* buffers = allocate((size_t)model->tensor_count, sizeof *buffers);
  for (int t = 0; t < model->tensor_count; ++t) {
    const shampoo_buffers empty = SHAMPOO_BUFFERS_INIT;
    buffers[t] = empty;
    buffers[t].param = buffers[t].out = params + model->tensors[t].offset;
    buffers[t].grad = grads + model->tensors[t].offset;
  }
  check(shampoo_optimizer_bind(shampoo->optimizer, 0, model->tensor_count, buffers), "bind");

  free(buffers);
  shampoo_plan_destroy(plan);
  shampoo_config_destroy(vectors);
  shampoo_config_destroy(config);
}

void with_shampoo_free(WithShampoo* shampoo) { shampoo_optimizer_destroy(shampoo->optimizer); }

void with_shampoo_step(WithShampoo* shampoo, double lr) {
  for (int32_t group = 0; group < kGroups; ++group) {
    check(shampoo_optimizer_set(shampoo->optimizer, group, "lr", lr), "lr");
  }
  check(shampoo_optimizer_step(shampoo->optimizer, NULL), "step");
}

double with_shampoo_stat(const WithShampoo* shampoo, const char* key) {
  double value;
  check(shampoo_optimizer_stat(shampoo->optimizer, key, &value), key);
  return value;
}

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "with_shampoo.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "status.h"

static void add_param(shampoo_plan* plan, const Tensor* tensor, int sharded) {
  shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
  desc.name = tensor->name;
  desc.ndim = tensor->ndim;
  for (int d = 0; d < tensor->ndim; ++d) desc.shape[d] = tensor->shape[d];
  desc.param_dtype = desc.grad_dtype = SHAMPOO_F32;
  if (sharded) {
    desc.shard_form = 1;
    desc.flat_offset = tensor->begin;
    desc.flat_count = tensor->count;
  }
  check(shampoo_plan_add_param(plan, &desc, NULL), tensor->name);
}

static shampoo_comm* make_comm(const shampoo_comm_ops* ops) {
  shampoo_comm* comm = NULL;
  if (ops != NULL) check(shampoo_comm_from_ops(&comm, ops), "communicator");
  return comm;
}

void with_shampoo_create(WithShampoo* shampoo, const Tensor* tensors, int count, const Settings* settings,
                         const Placement* placement) {
  // 1. The hyper-parameters.
  shampoo_config* config;
  check(shampoo_config_create(&config), "config");
  settings_apply(settings, config);
  snprintf(shampoo->frequency, sizeof shampoo->frequency, "%s", shampoo_config_get(config, "precondition_frequency"));

  // 2. The plan: the device type, this rank, the shapes of the parameters, and the elements that this rank holds.
  shampoo_plan* plan;
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  plan_desc.device_type = SHAMPOO_CUDA;
  if (placement->replicas != NULL) {
    plan_desc.replica_rank = placement->replicas->rank;
    plan_desc.replica_world = placement->replicas->world;
  }
  if (placement->shards != NULL) {
    plan_desc.shard_rank = placement->shards->rank;
    plan_desc.shard_world = placement->shards->world;
  }
  check(shampoo_plan_create(&plan, config, &plan_desc), "plan");
  for (int t = 0; t < count; ++t) add_param(plan, &tensors[t], placement->shards != NULL);
  check(shampoo_plan_finish(plan), "plan");
  check(shampoo_plan_bytes(plan, -1, "state", &shampoo->state_bytes), "plan");
  check(shampoo_plan_bytes(plan, -1, "comm", &shampoo->sent_bytes), "plan");

  // 3. The optimizer. All memory is allocated here, in the order of the stream; steps allocate nothing.
  shampoo_comm *replicas = make_comm(placement->replicas), *shards = make_comm(placement->shards);
  shampoo_optimizer_desc optimizer_desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  optimizer_desc.device_type = SHAMPOO_CUDA;
  optimizer_desc.device_id = placement->device;
  optimizer_desc.stream = placement->stream;
  optimizer_desc.replica_comm = replicas;
  optimizer_desc.shard_comm = shards;
  check(shampoo_optimizer_create(&shampoo->optimizer, plan, &optimizer_desc), "optimizer");
  shampoo_comm_destroy(replicas);  // the optimizer keeps its own references
  shampoo_comm_destroy(shards);

  // 4. The buffers of parameters and gradients, in GPU memory. Their addresses never change, so the buffers are bound
  // only once.
  shampoo_buffers* buffers = allocate((size_t)count, sizeof *buffers);
  for (int t = 0; t < count; ++t) {
    const shampoo_buffers empty = SHAMPOO_BUFFERS_INIT;
    buffers[t] = empty;
    buffers[t].param = buffers[t].out = tensors[t].param;
    buffers[t].grad = tensors[t].grad;
  }
  check(shampoo_optimizer_bind(shampoo->optimizer, 0, count, buffers), "bind");
  free(buffers);

  // 5. The learning rate. Steps read it from GPU memory, where the GPU can change it between two steps.
  check(shampoo_optimizer_bind_scalar(shampoo->optimizer, 0, "lr", SHAMPOO_F32, placement->lr), "lr");

  shampoo_plan_destroy(plan);
  shampoo_config_destroy(config);
}

void with_shampoo_free(WithShampoo* shampoo) { shampoo_optimizer_destroy(shampoo->optimizer); }

void with_shampoo_step(WithShampoo* shampoo, cudaStream_t stream) {
  check(shampoo_optimizer_step(shampoo->optimizer, stream), "step");
}

double with_shampoo_roots(const WithShampoo* shampoo) {
  double roots;
  // A step reports the errors of earlier steps. This call reports the errors of the last step.
  check(shampoo_optimizer_status(shampoo->optimizer, 1, NULL), "the last step");
  check(shampoo_optimizer_stat(shampoo->optimizer, "root_computed", &roots), "root_computed");
  return roots;
}

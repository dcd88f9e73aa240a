// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "with_shampoo.h"

#include <string.h>

#include "status.h"

static void add_param(shampoo_plan* plan, int t, const Ranks* ranks, const Shards* shards) {
  const MlpTensor* tensor = &mlp_tensors[t];
  shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
  desc.name = tensor->name;
  desc.ndim = tensor->ndim;
  for (int d = 0; d < tensor->ndim; ++d) desc.shape[d] = tensor->shape[d];
  desc.param_dtype = desc.grad_dtype = sizeof(real) == sizeof(double) ? SHAMPOO_F64 : SHAMPOO_F32;
  if (shards != NULL) {
    const Chunk chunk = chunk_of(t, ranks->rank, ranks->world);
    desc.shard_form = 1;
    desc.flat_offset = chunk.begin;
    desc.flat_count = chunk.count;
  }
  check(shampoo_plan_add_param(plan, &desc, NULL), tensor->name);
}

static void measure(WithShampoo* shampoo, const shampoo_plan* plan, const shampoo_plan_desc* plan_desc) {
  // The argument `rank` of shampoo_plan_bytes() is the replica rank or, with "shard_mode=gather", replica rank *
  // shard_world + shard rank. With "shard_mode=gather", the replica rank is 0 here.
  const int rank = shampoo->gathers ? plan_desc->shard_rank : plan_desc->replica_rank;
  int64_t count;
  check(shampoo_plan_bytes(plan, rank, "state", &shampoo->state_bytes), "plan");
  check(shampoo_plan_bytes(plan, rank, "comm", &shampoo->sent_bytes), "plan");
  check(shampoo_plan_block_count(plan, &count), "plan");
  shampoo->blocks = 0;
  for (int t = 0; t < kTensors; ++t) shampoo->of_shard[t] = -1;
  for (int64_t b = 0; b < count; ++b) {
    shampoo_block_info block = SHAMPOO_BLOCK_INFO_INIT;
    check(shampoo_plan_block(plan, b, &block), "plan");
    shampoo->blocks += block.owner == plan_desc->replica_rank && block.shard_owner == plan_desc->shard_rank;
    shampoo->of_shard[block.param] = block.of_shard;
  }
}

void with_shampoo_create(WithShampoo* shampoo, const Ranks* ranks, const Mlp* net, const Shards* shards,
                         const Settings* settings) {
  // 1. The hyper-parameters, which must be the same on every rank.
  shampoo_config* config;
  check(shampoo_config_create(&config), "config");
  settings_apply(settings, config);
  shampoo->gathers = shards != NULL && strcmp(shampoo_config_get(config, "shard_mode"), "gather") == 0;

  // 2. The plan. It needs the number of this rank, the shapes of the parameters, and the chunks that this rank holds.
  shampoo_plan* plan;
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  if (shards == NULL) {
    plan_desc.replica_rank = ranks->rank;
    plan_desc.replica_world = ranks->world;
  } else {
    plan_desc.shard_rank = ranks->rank;
    plan_desc.shard_world = ranks->world;
  }
  check(shampoo_plan_create(&plan, config, &plan_desc), "plan");
  for (int t = 0; t < kTensors; ++t) add_param(plan, t, ranks, shards);
  check(shampoo_plan_finish(plan), "plan");
  measure(shampoo, plan, &plan_desc);

  // 3. The communicator.
  shampoo_comm_ops ops;
  ranks_ops(ranks, &ops);
  check(shampoo_comm_from_ops(&shampoo->world, &ops), "communicator");

  // 4. The optimizer. The call is collective: it succeeds on all ranks or on none.
  shampoo_optimizer_desc optimizer_desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  if (shards == NULL) {
    optimizer_desc.replica_comm = shampoo->world;
  } else {
    optimizer_desc.shard_comm = shampoo->world;
  }
  check(shampoo_optimizer_create(&shampoo->optimizer, plan, &optimizer_desc), "optimizer");
  check(shampoo_optimizer_get(shampoo->optimizer, 0, "lr", &shampoo->lr), "lr");

  // 5. The buffers: the whole parameters and gradients of the network or, with shards, this rank's chunks of both.
  shampoo_buffers buffers[kTensors];
  for (int t = 0; t < kTensors; ++t) {
    const shampoo_buffers empty = SHAMPOO_BUFFERS_INIT;
    const int chunk_offset = chunk_of(t, ranks->rank, ranks->world).offset;
    buffers[t] = empty;
    buffers[t].param = buffers[t].out =
        shards == NULL ? net->params + mlp_tensors[t].offset : shards->params + chunk_offset;
    buffers[t].grad = shards == NULL ? net->grads + mlp_tensors[t].offset : shards->grads + chunk_offset;
  }
  check(shampoo_optimizer_bind(shampoo->optimizer, 0, kTensors, buffers), "bind");

  shampoo_plan_destroy(plan);
  shampoo_config_destroy(config);
}

void with_shampoo_free(WithShampoo* shampoo) {
  shampoo_optimizer_destroy(shampoo->optimizer);
  shampoo_comm_destroy(shampoo->world);
}

void with_shampoo_step(WithShampoo* shampoo) { check(shampoo_optimizer_step(shampoo->optimizer, NULL), "step"); }

void with_shampoo_set_lr(WithShampoo* shampoo, double lr) {
  check(shampoo_optimizer_set(shampoo->optimizer, 0, "lr", lr), "lr");
}

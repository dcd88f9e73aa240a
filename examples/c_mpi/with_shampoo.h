// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Creates the optimizer, makes its steps and changes its learning rate.
#ifndef C_MPI_WITH_SHAMPOO_H
#define C_MPI_WITH_SHAMPOO_H

#include <shampoo/shampoo.h>

#include "mlp.h"
#include "ranks.h"
#include "settings.h"
#include "shards.h"

typedef struct {
  shampoo_optimizer* optimizer;
  shampoo_comm* world;     // connects all ranks
  double lr;               // initial learning rate
  int64_t state_bytes;     // memory of the state on this rank
  int64_t sent_bytes;      // bytes of gradients, parameters or updates that this rank sends per step
  int64_t blocks;          // number of blocks whose state this rank keeps
  int of_shard[kTensors];  // shampoo_block_info.of_shard of the blocks of each parameter; -1: no block in the plan
  int gathers;             // 1: the ranks hold chunks, with shard_mode=gather
} WithShampoo;

// Creates an optimizer on every rank. If shards is NULL, each rank holds all parameters in net, and the blocks are
// divided among the ranks. Otherwise each rank holds the chunks in shards. Collective.
void with_shampoo_create(WithShampoo* shampoo, const Ranks* ranks, const Mlp* net, const Shards* shards,
                         const Settings* settings);
void with_shampoo_free(WithShampoo* shampoo);

// Makes one step: reads the gradients and updates the parameters. Collective.
void with_shampoo_step(WithShampoo* shampoo);

// Changes the learning rate from the next step on. Every rank must pass the same value.
void with_shampoo_set_lr(WithShampoo* shampoo, double lr);

#endif

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Everything that this program does with libshampoo.
#ifndef C_MPI_WITH_SHAMPOO_H
#define C_MPI_WITH_SHAMPOO_H

#include <shampoo/shampoo.h>

#include "mlp.h"
#include "ranks.h"
#include "settings.h"
#include "shards.h"

typedef struct {
  shampoo_optimizer* optimizer;
  shampoo_comm* world;     // all ranks
  double lr;               // the learning rate that it was made with
  int64_t state_bytes;     // memory of the state on this rank
  int64_t sent_bytes;      // what this rank sends in a step, to exchange gradients, parameters or updates
  int64_t blocks;          // whose state this rank keeps
  int of_shard[kTensors];  // blocks of a parameter: 0 of the whole parameter, 1 of this rank's shard; -1: none
  int gathers;             // chunks are brought together to whole blocks
} WithShampoo;

// Makes an optimizer on every rank. shards NULL: each rank holds all parameters, in net, and the blocks are divided
// over the ranks. Otherwise each rank holds its chunks. Collective.
void with_shampoo_create(WithShampoo* shampoo, const Ranks* ranks, const Mlp* net, const Shards* shards,
                         const Settings* settings);
void with_shampoo_free(WithShampoo* shampoo);

// One step: reads the gradients and moves the parameters. Collective.
void with_shampoo_step(WithShampoo* shampoo);

// Changes the learning rate from the next step on; to the same on every rank.
void with_shampoo_set_lr(WithShampoo* shampoo, double lr);

#endif

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Fully sharded parameters: every rank holds its chunks (chunks.h). After each step, the chunks of all ranks are
// gathered for the next forward pass.
#ifndef C_MPI_SHARDS_H
#define C_MPI_SHARDS_H

#include "chunks.h"
#include "mlp.h"
#include "ranks.h"

typedef struct {
  int size;      // size of the buffer of a rank, in elements
  real* params;  // [size], this rank's chunks of the parameters
  real* grads;   // [size], this rank's chunks of the gradients
  real* all;     // [world][size], the chunks of all ranks; scratch memory of shards_gather()
} Shards;

void shards_create(Shards* shards, const Ranks* ranks);
void shards_free(Shards* shards);

// shards_take_params() copies this rank's chunks of the network's parameters to shards->params. shards_take_grads()
// copies this rank's chunks of the network's gradients to shards->grads.
void shards_take_params(Shards* shards, const Ranks* ranks, const Mlp* net);
void shards_take_grads(Shards* shards, const Ranks* ranks, const Mlp* net);

// Gathers the chunks of all ranks into the whole parameters of the network.
void shards_gather(Shards* shards, const Ranks* ranks, Mlp* net);

#endif

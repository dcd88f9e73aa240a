// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Fully sharded parameters: of each parameter, flattened, every rank holds one chunk of equal size; the last may be
// short, or empty. The chunks of a rank lie one after the other in one buffer, short ones filled up, so that the
// buffers of all ranks have one size and one all-gather moves them all.
#ifndef C_MPI_SHARDS_H
#define C_MPI_SHARDS_H

#include "mlp.h"
#include "ranks.h"

// What one rank holds of one parameter.
typedef struct {
  int begin;  // first element of the flattened parameter
  int count;  // elements; may be 0
  int place;  // where they begin in the buffer of the rank
} Chunk;

typedef struct {
  int size;      // of the buffer of a rank, in elements
  real* params;  // [size], this rank's own
  real* grads;   // [size]
  real* all;     // [world][size], for the gather
} Shards;

void shards_create(Shards* shards, const Ranks* ranks);
void shards_free(Shards* shards);

Chunk shards_chunk(int tensor, int rank, int world);

// Keeps this rank's chunks of the whole parameters of the network, or of its whole gradients.
void shards_take_params(Shards* shards, const Ranks* ranks, const Mlp* net);
void shards_take_grads(Shards* shards, const Ranks* ranks, const Mlp* net);

// Whole parameters from the chunks of all ranks, for forward and backward.
void shards_gather(Shards* shards, const Ranks* ranks, Mlp* net);

#endif

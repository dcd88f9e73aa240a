// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Fully sharded parameters: every rank holds one chunk of each flattened parameter. The chunks of a parameter have the
// same size, except that the last ones may be shorter or empty. All chunks of a rank are in one buffer, padded to the
// full size, so that the buffers of all ranks are equally large and one all-gather moves all parameters.
#ifndef C_MPI_SHARDS_H
#define C_MPI_SHARDS_H

#include "mlp.h"
#include "ranks.h"

// The part of a parameter that a rank holds.
typedef struct {
  int begin;   // first element of the flattened parameter
  int count;   // elements; may be 0
  int offset;  // of its first element in the buffer of the rank
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

// Copy this rank's chunks out of the whole parameters of the network, or out of its gradients.
void shards_take_params(Shards* shards, const Ranks* ranks, const Mlp* net);
void shards_take_grads(Shards* shards, const Ranks* ranks, const Mlp* net);

// Gathers the chunks of all ranks into the whole parameters of the network.
void shards_gather(Shards* shards, const Ranks* ranks, Mlp* net);

#endif

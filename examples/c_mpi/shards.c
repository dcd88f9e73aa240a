// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "shards.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

void shards_create(Shards* shards, const Ranks* ranks) {
  shards->size = chunks_size(ranks->world);
  const size_t size = (size_t)shards->size;
  shards->params = allocate(size, sizeof(real));
  shards->grads = allocate(size, sizeof(real));
  shards->all = allocate((size_t)ranks->world * size, sizeof(real));
}

void shards_free(Shards* shards) {
  free(shards->params);
  free(shards->grads);
  free(shards->all);
}

// Copies to `buffer` the chunks of `whole` that belong to `rank`.
static void pack(real* buffer, const real* whole, int rank, int world) {
  for (int t = 0; t < kTensors; ++t) {
    const Chunk chunk = chunk_of(t, rank, world);
    memcpy(buffer + chunk.offset, whole + mlp_tensors[t].offset + chunk.begin, (size_t)chunk.count * sizeof(real));
  }
}

static void unpack(real* whole, const real* buffer, int rank, int world) {
  for (int t = 0; t < kTensors; ++t) {
    const Chunk chunk = chunk_of(t, rank, world);
    memcpy(whole + mlp_tensors[t].offset + chunk.begin, buffer + chunk.offset, (size_t)chunk.count * sizeof(real));
  }
}

void shards_take_params(Shards* shards, const Ranks* ranks, const Mlp* net) {
  pack(shards->params, net->params, ranks->rank, ranks->world);
}

void shards_take_grads(Shards* shards, const Ranks* ranks, const Mlp* net) {
  pack(shards->grads, net->grads, ranks->rank, ranks->world);
}

void shards_gather(Shards* shards, const Ranks* ranks, Mlp* net) {
  ranks_gather(ranks, shards->params, shards->all, shards->size * (int)sizeof(real));
  for (int r = 0; r < ranks->world; ++r) {
    unpack(net->params, shards->all + (size_t)r * (size_t)shards->size, r, ranks->world);
  }
}

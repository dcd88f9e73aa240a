// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "shards.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

static int count_of(int tensor) {
  const MlpTensor* t = &mlp_tensors[tensor];
  return t->shape[0] * (t->ndim == 2 ? t->shape[1] : 1);
}

static int chunk_size(int tensor, int world) { return (count_of(tensor) + world - 1) / world; }

Chunk shards_chunk(int tensor, int rank, int world) {
  const int count = count_of(tensor), size = chunk_size(tensor, world);
  const int begin = rank * size < count ? rank * size : count;
  const int end = begin + size < count ? begin + size : count;
  Chunk chunk = {begin, end - begin, 0};
  for (int t = 0; t < tensor; ++t) chunk.offset += chunk_size(t, world);
  return chunk;
}

void shards_create(Shards* shards, const Ranks* ranks) {
  shards->size = 0;
  for (int t = 0; t < kTensors; ++t) shards->size += chunk_size(t, ranks->world);
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

// Copies the chunks of `whole` that `rank` holds to its buffer.
static void pack(real* buffer, const real* whole, int rank, int world) {
  for (int t = 0; t < kTensors; ++t) {
    const Chunk chunk = shards_chunk(t, rank, world);
    memcpy(buffer + chunk.offset, whole + mlp_tensors[t].offset + chunk.begin, (size_t)chunk.count * sizeof(real));
  }
}

static void unpack(real* whole, const real* buffer, int rank, int world) {
  for (int t = 0; t < kTensors; ++t) {
    const Chunk chunk = shards_chunk(t, rank, world);
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

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "chunks.h"

#include "mlp.h"

static int count_of(int tensor) {
  const MlpTensor* t = &mlp_tensors[tensor];
  return t->shape[0] * (t->ndim == 2 ? t->shape[1] : 1);
}

static int chunk_size(int tensor, int world) { return (count_of(tensor) + world - 1) / world; }

Chunk chunk_of(int tensor, int rank, int world) {
  const int count = count_of(tensor), size = chunk_size(tensor, world);
  const int begin = rank * size < count ? rank * size : count;
  const int end = begin + size < count ? begin + size : count;
  Chunk chunk = {begin, end - begin, 0};
  for (int t = 0; t < tensor; ++t) chunk.offset += chunk_size(t, world);
  return chunk;
}

int chunks_size(int world) {
  int size = 0;
  for (int t = 0; t < kTensors; ++t) size += chunk_size(t, world);
  return size;
}

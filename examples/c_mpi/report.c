// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"

// Prints `what` and the names of some parameters. With of_shard 0, these are the parameters that the library divides
// into blocks as a whole. With of_shard 1, they are the parameters of which the library divides only this rank's chunk
// into blocks. Prints nothing if there are no such parameters.
static void report_params(const WithShampoo* shampoo, int of_shard, const char* what) {
  int named = 0;
  for (int t = 0; t < kTensors; ++t) {
    if (shampoo->of_shard[t] != of_shard) continue;
    if (!named) printf("shampoo     %s", what);
    printf(" %s", mlp_tensors[t].name);
    named = 1;
  }
  if (named) printf("\n");
}

void report_head(const Options* options, const Ranks* ranks, const WithShampoo* shampoo, const Digits* digits,
                 int steps_per_epoch) {
  const int bits = 8 * (int)sizeof(real), version = (int)shampoo_version();
  printf("libshampoo %d.%d.%d, float%d, ranks of %s: %d\n", version / 10000, version / 100 % 100, version % 100, bits,
         ranks->how, ranks->world);
  printf("digits      %d training images, %d test images\n", digits->train_count, digits->test_count);
  printf("network     64-128-64-10, tanh, %d parameters\n", kValues);
  printf("steps       %d epochs of %d steps with %d images each\n", options->epochs, steps_per_epoch, options->batch);
  printf("ranks       %s\n", options->shards
                                 ? "fully sharded: each holds a chunk of every parameter, and a part of the state"
                                 : "data parallel: each holds all parameters, and the state of its blocks");
  report_params(shampoo, 0, "on blocks of the whole parameter:");
  report_params(shampoo, 1, "on pieces of the rank's chunk:");
  printf("\nepoch   training loss   test accuracy\n");
}

void report_epoch(int epoch, double loss, double accuracy) {
  printf("%5d   %13.5f   %11.2f %%\n", epoch, loss, 100 * accuracy);
  fflush(stdout);
}

// A row of the final table.
typedef struct {
  int64_t blocks;
  int64_t state_bytes;
  int64_t sent_bytes;
  uint64_t hash;  // hash of the bits of all parameters
} Row;

// Returns the FNV-1a hash of the bytes of the values.
static uint64_t hash_of(const real* values, int count) {
  const unsigned char* bytes = (const unsigned char*)values;
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < (size_t)count * sizeof(real); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

int report_ranks(const Ranks* ranks, const WithShampoo* shampoo, const Mlp* net) {
  const Row own = {shampoo->blocks, shampoo->state_bytes, shampoo->sent_bytes, hash_of(net->params, kValues)};
  Row* rows = allocate((size_t)ranks->world, sizeof(Row));
  double state = 0;
  int same = 1;
  ranks_gather(ranks, &own, rows, (int)sizeof own);
  for (int r = 0; r < ranks->world; ++r) {
    same = same && rows[r].hash == rows[0].hash;
    state += (double)rows[r].state_bytes;
  }
  if (ranks->rank == 0) {
    printf("\n rank   blocks       state   %s sent per step   hash of the parameters\n",
           shampoo->gathers ? "  total" : "updates");
    for (int r = 0; r < ranks->world; ++r) {
      printf("%5d   %6d   %5.0f KiB        %8d bytes   %016llx\n", r, (int)rows[r].blocks,
             (double)rows[r].state_bytes / 1024, (int)rows[r].sent_bytes, (unsigned long long)rows[r].hash);
    }
    printf("  all            %5.0f KiB                         %s\n", state / 1024,
           same ? "bit-identical on every rank" : "THE RANKS DIFFER");
  }
  free(rows);
  return same;
}

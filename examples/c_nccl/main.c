// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Trains the network of c_mlp on handwritten digits, with ranks of NCCL: one thread a rank, one communicator for all,
// made here and destroyed here. The training itself is that of c_mpi.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "nccl_ranks.h"
#include "numbers.h"
#include "options.h"
#include "trainer.h"

const char program_name[] = "train_digits_nccl";

static const char kHelp[] =
    "  --ranks N            threads that train together, each on a GPU of its own (4)\n"
    "  --host-memory        NCCL takes memory of the host: only for the stand-in of libshampoo's tests\n";

typedef struct {
  pthread_t thread;
  Ranks ranks;
  NcclRank nccl;
  const Options* options;
  int same;
} Worker;

static void* work(void* argument) {
  Worker* worker = argument;
  worker->same = train(worker->options, &worker->ranks);
  return NULL;
}

// Takes its own options out of the command line and leaves the rest to the trainer; returns how many are left.
static int parse_own(int argc, char** argv, int* ranks, int* host_memory) {
  int left = 1;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--host-memory") == 0) {
      *host_memory = 1;
    } else if (strcmp(argv[i], "--ranks") == 0 && i + 1 < argc) {
      *ranks = to_integer(argv[i], argv[i + 1], 1, 1024);
      ++i;
    } else {
      if (strcmp(argv[i], "--help") == 0) fputs(kHelp, stdout);
      argv[left++] = argv[i];
    }
  }
  argv[left] = NULL;
  return left;
}

int main(int argc, char** argv) {
  Options options;
  int count = 4, host_memory = 0, same = 1;
  argc = parse_own(argc, argv, &count, &host_memory);
  options_parse(&options, argc, argv);

  ncclComm_t* comms = allocate((size_t)count, sizeof *comms);
  Worker* workers = allocate((size_t)count, sizeof *workers);
  check_nccl(ncclCommInitAll(comms, count, NULL), "ncclCommInitAll");
  for (int r = 0; r < count; ++r) {
    Worker* worker = &workers[r];
    worker->options = &options;
    worker->nccl.comm = comms[r];
    worker->nccl.host_memory = host_memory;
    worker->ranks.rank = r;
    worker->ranks.world = count;
    worker->ranks.how = "NCCL";
    worker->ranks.comm = &worker->nccl;
    if (pthread_create(&worker->thread, NULL, work, worker) != 0) fail("the thread of rank %d cannot be started", r);
  }
  for (int r = 0; r < count; ++r) {
    pthread_join(workers[r].thread, NULL);
    same = same && workers[r].same;
  }
  // The optimizers are gone, so nobody uses the communicators any more.
  for (int r = 0; r < count; ++r) check_nccl(ncclCommDestroy(comms[r]), "ncclCommDestroy");

  free(workers);
  free(comms);
  options_free(&options);
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}

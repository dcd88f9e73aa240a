// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Trains the network of examples/c_mlp on handwritten digits over NCCL, with one thread per rank. The program creates
// and destroys the communicators. The training is in ../c_mpi/trainer.c.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "nccl_ranks.h"
#include "options.h"
#include "trainer.h"

const char program_name[] = "train_digits_nccl";

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

int main(int argc, char** argv) {
  Options options;
  int count = 4, host_memory = 0, same = 1;
  const Option more[] = {option_integer("--ranks", &count, 1, 1024, "number of ranks; each rank is a thread"),
                         option_flag("--host-memory", &host_memory, 1,
                                     "NCCL takes host memory; only for the stand-in of libshampoo's tests"),
                         {0}};
  options_parse(&options, argc, argv, more);

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
    if (pthread_create(&worker->thread, NULL, work, worker) != 0) fail("cannot start the thread of rank %d", r);
  }
  for (int r = 0; r < count; ++r) {
    pthread_join(workers[r].thread, NULL);
    same = same && workers[r].same;
  }
  // The optimizers that used the communicators have been destroyed.
  for (int r = 0; r < count; ++r) check_nccl(ncclCommDestroy(comms[r]), "ncclCommDestroy");

  free(workers);
  free(comms);
  settings_free(&options.settings);
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}

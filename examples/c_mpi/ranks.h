// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Ranks that train together, and what they exchange. mpi_ranks.c says it with MPI, ../c_nccl/nccl_ranks.c with NCCL.
// All functions are collective, and end the program when they fail.
#ifndef C_MPI_RANKS_H
#define C_MPI_RANKS_H

#include <shampoo/shampoo.h>
#include <stddef.h>

#include "real.h"

typedef struct {
  int rank;         // in [0, world)
  int world;        // number of ranks
  const char* how;  // "MPI", for the report
  void* comm;       // the communicator, or where it is
} Ranks;

// values [count] becomes the sum of the values of all ranks, on all ranks.
void ranks_sum(const Ranks* ranks, real* values, int count);

// all [world][bytes] receives own [bytes] of every rank.
void ranks_gather(const Ranks* ranks, const void* own, void* all, int bytes);

// The same ranks for libshampoo.
void ranks_ops(const Ranks* ranks, shampoo_comm_ops* ops);

#endif

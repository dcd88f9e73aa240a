// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Collectives of the training: mpi_ranks.c implements them with MPI, ../c_nccl/nccl_ranks.c with NCCL. All functions
// are collective and exit with an error on failure.
#ifndef C_MPI_RANKS_H
#define C_MPI_RANKS_H

#include <shampoo/shampoo.h>
#include <stddef.h>

#include "real.h"

typedef struct {
  int rank;         // in [0, world)
  int world;        // number of ranks
  const char* how;  // "MPI" or "NCCL", for the report
  void* comm;       // points to an MPI_Comm or an NcclRank
} Ranks;

// Replaces values [count] by the sum of the values of all ranks.
void ranks_sum(const Ranks* ranks, real* values, int count);

// Gathers `own` [bytes] of every rank in `all` [world][bytes].
void ranks_gather(const Ranks* ranks, const void* own, void* all, int bytes);

// Fills ops with callbacks for libshampoo.
void ranks_ops(const Ranks* ranks, shampoo_comm_ops* ops);

#endif

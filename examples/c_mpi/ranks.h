// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The collectives that the training calls. mpi_ranks.c implements them with MPI, and ../c_nccl/nccl_ranks.c implements
// them with NCCL. All functions are collective. If a function fails, the program exits with an error.
#ifndef C_MPI_RANKS_H
#define C_MPI_RANKS_H

#include <shampoo/shampoo.h>
#include <stddef.h>

#include "real.h"

typedef struct {
  int rank;         // in [0, world)
  int world;        // number of ranks
  const char* how;  // "MPI" or "NCCL", which report_head() prints
  void* comm;       // points to an MPI_Comm or an NcclRank
} Ranks;

// Replaces each element of `values` [count] by the sum of this element over all ranks.
void ranks_sum(const Ranks* ranks, real* values, int count);

// Copies the array `own` [bytes] of every rank to `all` [world][bytes], in the order of the ranks.
void ranks_gather(const Ranks* ranks, const void* own, void* all, int bytes);

// Fills ops with the collectives that libshampoo calls, for shampoo_comm_from_ops().
void ranks_ops(const Ranks* ranks, shampoo_comm_ops* ops);

#endif

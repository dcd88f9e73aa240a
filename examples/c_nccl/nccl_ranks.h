// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Ranks of NCCL: ../c_mpi/ranks.h over a communicator that this program made and manages.
#ifndef C_NCCL_NCCL_RANKS_H
#define C_NCCL_NCCL_RANKS_H

#include <nccl.h>

#include "ranks.h"

// What Ranks.comm points to.
typedef struct {
  ncclComm_t comm;
  cudaStream_t stream;
  int host_memory;  // 1: this NCCL takes memory of the host, as the stand-in of the tests does
} NcclRank;

// Ends the program with the words of NCCL where the result is not success.
void check_nccl(ncclResult_t result, const char* what);

#endif

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Implements ../c_mpi/ranks.h over an NCCL communicator that this program owns.
#ifndef C_NCCL_NCCL_RANKS_H
#define C_NCCL_NCCL_RANKS_H

#include <nccl.h>

#include "ranks.h"

// The type that Ranks.comm points to.
typedef struct {
  ncclComm_t comm;
  cudaStream_t stream;
  int host_memory;  // 1: this NCCL takes host memory, as the stand-in of libshampoo's tests does
} NcclRank;

// Exits with NCCL's error message if the result is not ncclSuccess.
void check_nccl(ncclResult_t result, const char* what);

#endif

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Fully sharded parameters on GPUs: each GPU holds one chunk of every flattened parameter (../c_mpi/chunks.h), and the
// optimizer updates the chunks. All functions enqueue their work on the stream of the network.
#ifndef C_NCCL_GPU_SHARDS_H
#define C_NCCL_GPU_SHARDS_H

#include <nccl.h>

#include "network.h"

typedef struct {
  ncclComm_t comm;  // the GPUs that hold the chunks of one copy
  int rank, world;  // rank of this GPU in comm, and number of GPUs in comm
  int size;         // size of the buffer of a GPU, in elements
  float* params;    // [size], this GPU's own chunks
  float* grads;     // [size]
  float* all;       // [world][size], for the collectives
} GpuShards;

// Allocates the buffers, and copies this GPU's chunks of the network's parameters.
void gpu_shards_create(GpuShards* shards, ncclComm_t comm, const DeviceMlp* net);
void gpu_shards_free(GpuShards* shards);

// Sums the gradients of the network over the GPUs. Each GPU receives the sums of its own chunks.
void gpu_shards_reduce(GpuShards* shards, const DeviceMlp* net);

// Gathers the chunks of all GPUs into the whole parameters of the network.
void gpu_shards_gather(GpuShards* shards, const DeviceMlp* net);

// Exits with NCCL's error message if the result is not ncclSuccess.
void check_nccl(ncclResult_t result, const char* what);

#endif

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Fully sharded parameters on GPUs: each GPU holds one chunk of every flattened parameter (../c_mpi/chunks.h), and the
// optimizer updates the chunks. Copies and collectives are enqueued on the stream of the DeviceMlp.
#ifndef C_NCCL_GPU_SHARDS_H
#define C_NCCL_GPU_SHARDS_H

#include <nccl.h>

#include "network.h"

typedef struct {
  ncclComm_t comm;  // connects the GPUs that together hold one copy of the parameters
  int rank, world;  // rank of this GPU in comm, and number of GPUs in comm
  int size;         // number of elements of params and of grads, with padding
  float* params;    // [size], this GPU's chunks of the parameters
  float* grads;     // [size], this GPU's chunks of the summed gradients
  float* all;       // [world][size], the chunks of all GPUs; scratch memory of the collectives
} GpuShards;

// Allocates the buffers, and copies this GPU's chunks of the network's parameters to shards->params.
void gpu_shards_create(GpuShards* shards, ncclComm_t comm, const DeviceMlp* net);
void gpu_shards_free(GpuShards* shards);

// Sums the gradients of the network over the GPUs of comm. shards->grads receives this GPU's chunks of the sums.
void gpu_shards_reduce(GpuShards* shards, const DeviceMlp* net);

// Gathers shards->params of all GPUs into the whole parameters of the network.
void gpu_shards_gather(GpuShards* shards, const DeviceMlp* net);

// If the result is not ncclSuccess, exits with a message: `what`, a colon and NCCL's error message.
void check_nccl(ncclResult_t result, const char* what);

#endif

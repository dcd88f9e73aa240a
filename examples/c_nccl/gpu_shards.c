// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "gpu_shards.h"

#include "check.h"
#include "chunks.h"

void check_nccl(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) fail("%s: %s", what, ncclGetErrorString(result));
}

static void copy(float* to, const float* from, int count, cudaStream_t stream) {
  if (count == 0) return;
  check_cuda(cudaMemcpyAsync(to, from, (size_t)count * sizeof(float), cudaMemcpyDeviceToDevice, stream),
             "copying chunks");
}

// Copies to `buffer` the chunks of `whole` that belong to `rank`.
static void pack(float* buffer, const float* whole, int rank, int world, cudaStream_t stream) {
  for (int t = 0; t < kTensors; ++t) {
    const Chunk chunk = chunk_of(t, rank, world);
    copy(buffer + chunk.offset, whole + mlp_tensors[t].offset + chunk.begin, chunk.count, stream);
  }
}

static void unpack(float* whole, const float* buffer, int rank, int world, cudaStream_t stream) {
  for (int t = 0; t < kTensors; ++t) {
    const Chunk chunk = chunk_of(t, rank, world);
    copy(whole + mlp_tensors[t].offset + chunk.begin, buffer + chunk.offset, chunk.count, stream);
  }
}

void gpu_shards_create(GpuShards* shards, ncclComm_t comm, const DeviceMlp* net) {
  shards->comm = comm;
  check_nccl(ncclCommUserRank(comm, &shards->rank), "ncclCommUserRank");
  check_nccl(ncclCommCount(comm, &shards->world), "ncclCommCount");
  shards->size = chunks_size(shards->world);
  shards->params = device_allocate((size_t)shards->size, sizeof(float));
  shards->grads = device_allocate((size_t)shards->size, sizeof(float));
  shards->all = device_allocate((size_t)shards->world * (size_t)shards->size, sizeof(float));
  pack(shards->params, net->params, shards->rank, shards->world, net->stream);
}

void gpu_shards_free(GpuShards* shards) {
  cudaFree(shards->params);
  cudaFree(shards->grads);
  cudaFree(shards->all);
}

void gpu_shards_reduce(GpuShards* shards, const DeviceMlp* net) {
  for (int r = 0; r < shards->world; ++r) {
    pack(shards->all + (size_t)r * (size_t)shards->size, net->grads, r, shards->world, net->stream);
  }
  check_nccl(ncclReduceScatter(shards->all, shards->grads, (size_t)shards->size, ncclFloat32, ncclSum, shards->comm,
                               net->stream),
             "ncclReduceScatter");
}

void gpu_shards_gather(GpuShards* shards, const DeviceMlp* net) {
  check_nccl(ncclAllGather(shards->params, shards->all, (size_t)shards->size, ncclFloat32, shards->comm, net->stream),
             "ncclAllGather");
  for (int r = 0; r < shards->world; ++r) {
    unpack(net->params, shards->all + (size_t)r * (size_t)shards->size, r, shards->world, net->stream);
  }
}

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "nccl_ranks.h"

#include <shampoo/shampoo_nccl.h>

#include "check.h"

void check_nccl(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) fail("%s: %s", what, ncclGetErrorString(result));
}

static ncclDataType_t real_type(void) { return sizeof(real) == sizeof(double) ? ncclFloat64 : ncclFloat32; }

static const NcclRank* of(const Ranks* ranks) { return (const NcclRank*)ranks->comm; }

void ranks_sum(const Ranks* ranks, real* values, int count) {
  check_nccl(ncclAllReduce(values, values, (size_t)count, real_type(), ncclSum, of(ranks)->comm, of(ranks)->stream),
             "ncclAllReduce");
}

void ranks_gather(const Ranks* ranks, const void* own, void* all, int bytes) {
  check_nccl(ncclAllGather(own, all, (size_t)bytes, ncclUint8, of(ranks)->comm, of(ranks)->stream), "ncclAllGather");
}

void ranks_ops(const Ranks* ranks, shampoo_comm_ops* ops) {
  check_nccl(shampoo_nccl_ops(of(ranks)->comm, ops), "shampoo_nccl_ops");
  // shampoo_nccl_ops() has set device_type to SHAMPOO_CUDA, because NVIDIA's NCCL takes device memory. The stand-in for
  // NCCL in libshampoo's tests takes host memory.
  if (of(ranks)->host_memory) ops->device_type = SHAMPOO_CPU;
}

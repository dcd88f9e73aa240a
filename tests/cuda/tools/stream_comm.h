// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <shampoo/shampoo.h>

#include <algorithm>

#include "tests/cuda/tools/rank_kind.h"

namespace shampoo_test {

// A communicator whose collectives only enqueue copies in the stream. Such collectives, like those of NCCL, can be
// captured into a CUDA graph. Only rank 0 exists: a collective acts as if the other ranks sent the same data as
// rank 0.
class StreamComm {
 public:
  explicit StreamComm(int world) : world_(world) {}

  shampoo_comm_ops Ops(bool with_all_to_all) {
    shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
    ops.user = this;
    ops.world = world_;
    ops.device_type = SHAMPOO_CUDA;
    ops.all_gather = Gather;
    if (with_all_to_all) ops.all_to_all = AllToAll;
    return ops;
  }

 private:
  static int32_t Copy(void* to, const void* from, size_t bytes, void* stream) {
    if (bytes == 0 || to == from) return 0;
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream));
  }
  static int32_t Gather(void* user, const void* send, void* recv, size_t bytes, void* stream) {
    int32_t error = 0;
    for (int rank = 0; rank < static_cast<StreamComm*>(user)->world_ && error == 0; ++rank) {
      error = Copy(static_cast<char*>(recv) + static_cast<size_t>(rank) * bytes, send, bytes, stream);
    }
    return error;
  }
  static int32_t AllToAll(void* user, const void* send, const size_t* send_bytes, void* recv, const size_t* recv_bytes,
                          void* stream) {
    size_t sent = 0;
    size_t received = 0;
    int32_t error = 0;
    for (int rank = 0; rank < static_cast<StreamComm*>(user)->world_ && error == 0; ++rank) {
      error = Copy(static_cast<char*>(recv) + received, static_cast<const char*>(send) + sent,
                   std::min(send_bytes[rank], recv_bytes[rank]), stream);
      sent += send_bytes[rank];
      received += recv_bytes[rank];
    }
    return error;
  }

  int world_;
};

// The two communicators that connect one rank with the other replica ranks and with the other shard ranks. Comm is
// StreamComm or a class with the same functions. The constructor of Comm takes the number of ranks and `args`.
template <typename Comm>
class RankComms {
 public:
  template <typename... Args>
  explicit RankComms(const RankKind& kind, Args... args)
      : copies_(kind.copies, args...),
        shards_(kind.shards, args...),
        replica_ops_(copies_.Ops(kind.has_all_to_all)),
        shard_ops_(shards_.Ops(kind.has_all_to_all)) {}
  RankComms(const RankComms&) = delete;
  RankComms& operator=(const RankComms&) = delete;

  // Returns a copy of `spec` with the two communicators. Leaves out a communicator that has only one rank.
  ModelSpec Join(ModelSpec spec) const {
    if (replica_ops_.world > 1) spec.replica_ops = &replica_ops_;
    if (shard_ops_.world > 1) spec.shard_ops = &shard_ops_;
    return spec;
  }

 private:
  Comm copies_, shards_;
  shampoo_comm_ops replica_ops_, shard_ops_;
};

}  // namespace shampoo_test

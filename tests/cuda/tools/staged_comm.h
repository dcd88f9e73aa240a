// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <shampoo/shampoo.h>

#include <vector>

#include "tests/distributed/thread_comm.h"

namespace shampoo_test {

// A communicator for ranks that are threads of one process with buffers on one device, which NCCL does not support.
// Segments are copied through the host, which waits for them.
class StagedComm {
 public:
  // Checks the memory of a collective; returns 0 if NCCL could not use it.
  using CheckMemory = int(const void* data, size_t bytes);

  explicit StagedComm(int world, CheckMemory* check = nullptr) : host_(world) {
    for (int rank = 0; rank < world; ++rank) ranks_.push_back({check, {}, {}, {}});
  }
  StagedComm(const StagedComm&) = delete;
  StagedComm& operator=(const StagedComm&) = delete;

  // with_abort: provides an abort function that ends all waits.
  shampoo_comm_ops OpsOf(int rank, bool with_abort = false) {
    Rank& own = ranks_[static_cast<size_t>(rank)];
    own.host = host_.OpsOf(rank, with_abort);
    shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
    ops.user = &own;
    ops.rank = rank;
    ops.world = own.host.world;
    ops.device_type = SHAMPOO_CUDA;
    ops.all_gather = Gather;
    if (with_abort) {
      ops.abort = [](void* user) {
        const auto* const rank_of = static_cast<Rank*>(user);
        rank_of->host.abort(rank_of->host.user);
      };
    }
    return ops;
  }
  ThreadComm& host() { return host_; }
  // Returns whether the calling thread is inside of a collective.
  static bool IsInside() { return IsInsideHere(); }

  static constexpr int32_t kMisused = 2001;

 private:
  struct Rank {
    CheckMemory* check;
    shampoo_comm_ops host;
    std::vector<char> own;
    std::vector<char> all;
  };

  static bool& IsInsideHere() {
    thread_local bool is_inside = false;
    return is_inside;
  }

  static int32_t Gather(void* user, const void* send, void* recv, size_t bytes, void* stream) {
    IsInsideHere() = true;
    const int32_t error = GatherStaged(user, send, recv, bytes, stream);
    IsInsideHere() = false;
    return error;
  }
  static int32_t GatherStaged(void* user, const void* send, void* recv, size_t bytes, void* stream) {
    auto* const rank = static_cast<Rank*>(user);
    auto* const queue = static_cast<cudaStream_t>(stream);
    const size_t all_bytes = bytes * static_cast<size_t>(rank->host.world);
    if (rank->check != nullptr && (rank->check(send, bytes) == 0 || rank->check(recv, all_bytes) == 0)) return kMisused;
    rank->own.resize(bytes);
    rank->all.resize(all_bytes);
    cudaError_t error = cudaMemcpyAsync(rank->own.data(), send, bytes, cudaMemcpyDeviceToHost, queue);
    if (error == cudaSuccess) error = cudaStreamSynchronize(queue);
    if (error != cudaSuccess) return static_cast<int32_t>(error);
    const int32_t failed = rank->host.all_gather(rank->host.user, rank->own.data(), rank->all.data(), bytes, nullptr);
    if (failed != 0) return failed;
    error = cudaMemcpyAsync(recv, rank->all.data(), rank->all.size(), cudaMemcpyHostToDevice, queue);
    if (error == cudaSuccess) error = cudaStreamSynchronize(queue);
    return static_cast<int32_t>(error);
  }

  ThreadComm host_;
  std::vector<Rank> ranks_;
};

}  // namespace shampoo_test

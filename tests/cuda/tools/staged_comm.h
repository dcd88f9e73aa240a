// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <shampoo/shampoo.h>

#include <numeric>
#include <vector>

#include "tests/distributed/thread_comm.h"

namespace shampoo_test {

// A communicator for ranks that are threads of one process and use the same device. NCCL does not support such ranks. A
// callback copies the data of a collective through host memory, and returns after the copies have finished.
class StagedComm {
 public:
  // Returns 0 if NCCL could not use this memory in a collective.
  using CheckMemory = int(const void* data, size_t bytes);

  explicit StagedComm(int world, CheckMemory* check = nullptr) : host_(world) {
    for (int rank = 0; rank < world; ++rank) ranks_.push_back({check, {}, {}, {}});
  }
  StagedComm(const StagedComm&) = delete;
  StagedComm& operator=(const StagedComm&) = delete;

  // Returns the callbacks of a rank. If with_abort is true, they include `abort`, which ends the waiting of all ranks.
  // If with_all_to_all is true, they include `all_to_all`.
  shampoo_comm_ops OpsOf(int rank, bool with_abort = false, bool with_all_to_all = false) {
    Rank& own = ranks_[static_cast<size_t>(rank)];
    own.host = host_.OpsOf(rank, with_abort);
    shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
    ops.user = &own;
    ops.rank = rank;
    ops.world = own.host.world;
    ops.device_type = SHAMPOO_CUDA;
    ops.all_gather = Gather;
    if (with_all_to_all) ops.all_to_all = AllToAll;
    if (with_abort) {
      ops.abort = [](void* user) {
        const auto* const rank_of = static_cast<Rank*>(user);
        rank_of->host.abort(rank_of->host.user);
      };
    }
    return ops;
  }
  // Returns the communicator that exchanges the copies in host memory.
  ThreadComm& host() { return host_; }
  // Returns whether the calling thread is inside of a collective.
  static bool IsInside() { return IsInsideHere(); }

  static constexpr int32_t kMisused = 2001;  // the error of a collective whose memory NCCL could not use

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

  // Copies the bytes at `send` from the device to rank->own. Then calls exchange(), which fills rank->all with the
  // received data. Then copies the received data to `recv` on the device.
  template <typename Exchange>
  static int32_t Stage(Rank* rank, const void* send, size_t send_bytes, void* recv, size_t recv_bytes, void* stream,
                       const Exchange& exchange) {
    IsInsideHere() = true;
    const int32_t error = StageInside(rank, send, send_bytes, recv, recv_bytes, stream, exchange);
    IsInsideHere() = false;
    return error;
  }
  template <typename Exchange>
  static int32_t StageInside(Rank* rank, const void* send, size_t send_bytes, void* recv, size_t recv_bytes,
                             void* stream, const Exchange& exchange) {
    auto* const queue = static_cast<cudaStream_t>(stream);
    const auto usable = [rank](const void* data, size_t bytes) {
      return rank->check == nullptr || bytes == 0 || rank->check(data, bytes) != 0;
    };
    if (!usable(send, send_bytes) || !usable(recv, recv_bytes)) return kMisused;
    rank->own.resize(send_bytes);
    rank->all.resize(recv_bytes);
    cudaError_t error = cudaMemcpyAsync(rank->own.data(), send, send_bytes, cudaMemcpyDeviceToHost, queue);
    if (error == cudaSuccess) error = cudaStreamSynchronize(queue);
    if (error != cudaSuccess) return static_cast<int32_t>(error);
    const int32_t failed = exchange();
    if (failed != 0) return failed;
    error = cudaMemcpyAsync(recv, rank->all.data(), recv_bytes, cudaMemcpyHostToDevice, queue);
    if (error == cudaSuccess) error = cudaStreamSynchronize(queue);
    return static_cast<int32_t>(error);
  }

  static int32_t Gather(void* user, const void* send, void* recv, size_t bytes, void* stream) {
    auto* const rank = static_cast<Rank*>(user);
    const shampoo_comm_ops& host = rank->host;
    return Stage(rank, send, bytes, recv, bytes * static_cast<size_t>(host.world), stream,
                 [&] { return host.all_gather(host.user, rank->own.data(), rank->all.data(), bytes, nullptr); });
  }

  static int32_t AllToAll(void* user, const void* send, const size_t* send_bytes, void* recv, const size_t* recv_bytes,
                          void* stream) {
    auto* const rank = static_cast<Rank*>(user);
    const shampoo_comm_ops& host = rank->host;
    const auto sum = [&](const size_t* bytes) { return std::accumulate(bytes, bytes + host.world, size_t{0}); };
    return Stage(rank, send, sum(send_bytes), recv, sum(recv_bytes), stream, [&] {
      return host.all_to_all(host.user, rank->own.data(), send_bytes, rank->all.data(), recv_bytes, nullptr);
    });
  }

  ThreadComm host_;
  std::vector<Rank> ranks_;
};

}  // namespace shampoo_test

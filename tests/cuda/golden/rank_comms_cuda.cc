// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Ranks that are threads of one process, with buffers on one device: what NCCL refuses to do.
#include <cuda_runtime_api.h>

#include <vector>

#include "tests/distributed/thread_comm.h"
#include "tests/golden/rank_comms.h"

namespace shampoo::golden {
namespace {

// Takes segments of a device to the host, and what was gathered back.
struct StagedRank {
  shampoo_comm_ops host;
  std::vector<char> own;
  std::vector<char> all;
};

int32_t Gather(void* user, const void* send, void* recv, size_t bytes, void* stream) {
  auto* const rank = static_cast<StagedRank*>(user);
  auto* const queue = static_cast<cudaStream_t>(stream);
  rank->own.resize(bytes);
  rank->all.resize(bytes * static_cast<size_t>(rank->host.world));
  cudaError_t error = cudaMemcpyAsync(rank->own.data(), send, bytes, cudaMemcpyDeviceToHost, queue);
  if (error == cudaSuccess) error = cudaStreamSynchronize(queue);
  if (error != cudaSuccess) return static_cast<int32_t>(error);
  const int32_t failed = rank->host.all_gather(rank->host.user, rank->own.data(), rank->all.data(), bytes, nullptr);
  if (failed != 0) return failed;
  error = cudaMemcpyAsync(recv, rank->all.data(), rank->all.size(), cudaMemcpyHostToDevice, queue);
  if (error == cudaSuccess) error = cudaStreamSynchronize(queue);
  return static_cast<int32_t>(error);
}

class CudaComms : public RankComms {
 public:
  explicit CudaComms(int world) : comm_(world) {
    for (int rank = 0; rank < world; ++rank) ranks_.push_back({comm_.OpsOf(rank), {}, {}});
  }
  shampoo_comm_ops OpsOf(int rank) override {
    shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
    ops.user = &ranks_[static_cast<size_t>(rank)];
    ops.rank = rank;
    ops.world = comm_.world();
    ops.device_type = SHAMPOO_CUDA;
    ops.all_gather = Gather;
    return ops;
  }

 private:
  shampoo_test::ThreadComm comm_;
  std::vector<StagedRank> ranks_;
};

}  // namespace

std::unique_ptr<RankComms> MakeRankComms(int world) { return std::make_unique<CudaComms>(world); }

}  // namespace shampoo::golden

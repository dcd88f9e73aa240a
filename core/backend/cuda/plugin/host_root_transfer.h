// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend/cuda/interface.h"
#include "core/backend/cuda/plugin/async_order.h"
#include "core/backend/cuda/plugin/cuda_handles.h"
#include "core/backend/cuda/plugin/device_memory.h"

namespace shampoo::cuda {

// The device side of async roots that the library computes on the host (root_device=host). A stream of the lowest
// priority copies factor matrices to pinned memory, and copies roots back to the device. Events order the work of this
// stream and the work of steps. A job computes a set of roots, usually those of all snapshots that one step has taken.
// The library calls this class from the thread that makes the steps, and from one other thread, which runs all jobs.
class HostRootTransfer {
 public:
  // The device memory of one root.
  struct Place {
    char* matrix = nullptr;        // both triangles, in the computation dtype: first the factor matrix, later its root
    int32_t* flag = nullptr;       // Fetch() copies it to HostRootHeader::may_be_diagonal
    RootStatus* status = nullptr;  // Return() copies HostRootHeader::status to it
    int64_t bytes = 0;             // size of the matrix
  };

  // steps: the largest number of steps between a snapshot and the first use of its roots. buffer_bytes: the size of
  // each of the two pinned buffers.
  static Status Create(int device, const PlanView& plan, int64_t steps, int64_t buffer_bytes,
                       std::unique_ptr<HostRootTransfer>* out);
  ~HostRootTransfer();  // waits for the work of the stream
  HostRootTransfer(const HostRootTransfer&) = delete;
  HostRootTransfer& operator=(const HostRootTransfer&) = delete;

  void SetPlace(int64_t block, int k, const Place& place) { places_[RootAt(block, k)] = place; }
  HostRootMemory memory() const { return {{buffers_[0].host(), buffers_[1].host()}, buffer_bytes_}; }

  // Called by the thread that makes the steps:
  //
  // Makes later work in `stream` wait for the last job that computes roots of the block. The call of End() for this job
  // must have returned.
  Status WaitForRoots(int64_t block, cudaStream_t stream) { return order_.WaitForRoots(block, stream); }
  // See Table::start_host_roots.
  Status Start(const HostRootStart& start, int64_t* job);

  // Called for each job by the thread that runs the jobs; see the functions of Table.
  Status Begin(int64_t job);
  Status Fetch(const HostRoot* roots, int64_t count, int32_t buffer);
  Status WaitForFetch(int32_t buffer);
  Status Return(const HostRoot* roots, int64_t count);
  Status End(int64_t job);

 private:
  HostRootTransfer(int device, const PlanView& plan) : device_(device), plan_(plan) {}
  size_t RootAt(int64_t block, int k) const { return static_cast<size_t>(first_root_[static_cast<size_t>(block)] + k); }

  int device_;
  const PlanView& plan_;
  std::array<MappedMemory, 2> buffers_;
  int64_t buffer_bytes_ = 0;
  OwnedStream stream_;  // destroyed before the buffers, which its work uses
  std::array<OwnedEvent, 2> fetched_;
  AsyncOrder order_;
  std::vector<int64_t> first_root_;  // by block: the index in places_ of its first root
  std::vector<Place> places_;        // by root, in the order of the plan
};

}  // namespace shampoo::cuda

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend/cuda/plugin/cuda_handles.h"
#include "core/backend/cuda/plugin/root_solver.h"

namespace shampoo::cuda {

// A stream on which inverse roots are computed while steps continue with the old roots (root_async), and the events
// that order this work with the steps. The work of a stream runs in order, so waiting for the roots of one step also
// waits for those of all earlier steps.
class AsyncRoots {
 public:
  // steps: the largest number of steps after which roots are used. The stream has the lowest priority.
  static Status Create(const std::vector<RootSizes>& sizes, int64_t block_count, int64_t steps,
                       std::unique_ptr<AsyncRoots>* out);
  ~AsyncRoots();  // waits for the work of the stream
  AsyncRoots(const AsyncRoots&) = delete;
  AsyncRoots& operator=(const AsyncRoots&) = delete;

  Status SetWorkspace(void* workspace, int64_t bytes) { return handles_.SetWorkspace(workspace, bytes); }
  const Handles& handles() const { return handles_.get(); }
  RootSolver* solver() { return solver_.get(); }
  // Returns how many steps may have roots that are not used yet.
  size_t runs() const { return done_.size(); }

  // Makes later work on `stream` wait for the last enqueued roots of this block.
  Status WaitForRoots(int64_t block, cudaStream_t stream);
  // Makes later work on this object's stream wait for all work that `stream` contains now.
  Status StartAfter(cudaStream_t stream);
  // Records that the step with this ticket enqueues roots of a block.
  void RecordTicket(int64_t block, int64_t ticket) { last_ticket_[static_cast<size_t>(block)] = ticket; }
  // Records the end of the roots of the step with this ticket.
  Status RecordEnd(int64_t ticket);

 private:
  AsyncRoots() = default;
  const OwnedEvent& DoneOf(int64_t ticket) const { return done_[static_cast<size_t>(ticket) % done_.size()]; }

  OwnedHandles handles_;
  std::unique_ptr<RootSolver> solver_;
  OwnedEvent start_;
  // Events by ticket, modulo their number. If an event has been recorded again for a later ticket, waiting for it waits
  // for more than is necessary, which is correct.
  std::vector<OwnedEvent> done_;
  std::vector<int64_t> last_ticket_;  // by block: the last step that enqueued its roots; 0: none
  int64_t waited_ticket_ = 0;         // later steps already wait for the tickets up to this one
};

}  // namespace shampoo::cuda

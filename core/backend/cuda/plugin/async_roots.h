// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend/cuda/plugin/cuda_handles.h"
#include "core/backend/cuda/plugin/root_solver.h"

namespace shampoo::cuda {

// A stream on which inverse roots are computed while steps go on with the old ones (root_async), and who waits for what
// of it. Its work is in the order in which it was given, so that who waits for a step's roots waits for all before.
class AsyncRoots {
 public:
  // steps: over how many steps roots may be under way. The stream has the lowest priority.
  static Status Create(const std::vector<RootSizes>& sizes, int64_t block_count, int64_t steps,
                       std::unique_ptr<AsyncRoots>* out);
  ~AsyncRoots();  // waits for its work
  AsyncRoots(const AsyncRoots&) = delete;
  AsyncRoots& operator=(const AsyncRoots&) = delete;

  Status SetWorkspace(void* workspace, int64_t bytes) { return handles_.SetWorkspace(workspace, bytes); }
  const Handles& handles() const { return handles_.get(); }
  RootSolver* solver() { return solver_.get(); }

  // What comes next on `stream` begins when the roots of this block that were given last are done.
  Status WaitForRoots(int64_t block, cudaStream_t stream);
  // What comes next here begins when what is on `stream` so far is done.
  Status StartAfter(cudaStream_t stream);
  // The roots of a block are among what was given since Follow, in the step with this ticket.
  void RecordTicket(int64_t block, int64_t ticket) { last_ticket_[static_cast<size_t>(block)] = ticket; }
  Status RecordEnd(int64_t ticket);

 private:
  AsyncRoots() = default;
  const OwnedEvent& DoneOf(int64_t ticket) const { return done_[static_cast<size_t>(ticket) % done_.size()]; }

  OwnedHandles handles_;
  std::unique_ptr<RootSolver> solver_;
  OwnedEvent start_;
  // By ticket, one after the other again: of an event that stands for a later one, more is waited for.
  std::vector<OwnedEvent> done_;
  std::vector<int64_t> last_ticket_;  // by block: the last ticket; 0: none
  int64_t waited_ticket_ = 0;         // tickets up to this one are done before the steps to come
};

}  // namespace shampoo::cuda

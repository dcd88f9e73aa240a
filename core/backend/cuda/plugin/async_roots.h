// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/backend/cuda/interface.h"
#include "core/backend/cuda/plugin/async_order.h"
#include "core/backend/cuda/plugin/cuda_handles.h"
#include "core/backend/cuda/plugin/root_solver.h"
#include "core/base/job_thread.h"

namespace shampoo::cuda {

// Computes inverse roots while steps continue with the old roots (key `root_async`). Owns a stream of the lowest
// priority and a thread that enqueues the computations in this stream. The thread is needed because some root methods
// wait for the device while they are being enqueued (RootSolver::Compute).
class AsyncRoots {
 public:
  // A job: the computation of the roots of all snapshots that one step takes.
  struct Job {
    int64_t number = 0;
    std::vector<DeviceSettings> groups;  // the settings of the groups in that step
    std::vector<RootTask> tasks;         // by block; the job computes the roots of blocks with the task kTakeSnapshot
  };
  // Enqueues the computation of a job. The thread of AsyncRoots calls this function, possibly while the destructor of
  // AsyncRoots waits for the thread.
  using EnqueueFunction = std::function<Status(const AsyncRoots& roots, const Job& job)>;

  // sizes: as for RootSolver::Create(). steps: the largest number of steps between a snapshot and the first use of its
  // roots.
  static Status Create(const std::vector<RootSizes>& sizes, int64_t block_count, int64_t steps,
                       std::unique_ptr<AsyncRoots>* out);
  // Starts the thread, which calls `enqueue`. Call this after everything that `enqueue` uses has been created. The
  // destructor of this object ends the thread.
  Status StartThread(int device, int64_t group_count, EnqueueFunction enqueue);
  ~AsyncRoots();  // waits for the job that is being enqueued and for the work of the stream
  AsyncRoots(const AsyncRoots&) = delete;
  AsyncRoots& operator=(const AsyncRoots&) = delete;

  Status SetWorkspace(void* workspace, int64_t bytes) { return handles_.SetWorkspace(workspace, bytes); }
  const Handles& handles() const { return handles_.get(); }
  RootSolver* solver() const { return solver_.get(); }
  // Returns the number of slots of the thread (see JobThread). Each job that waits to be enqueued or is being enqueued
  // occupies one slot.
  size_t slots() const { return order_.size(); }

  // Waits until the thread has enqueued the last job that computes the roots of a block. Call this before
  // WaitForRoots(), because a stream can wait only for work that has been enqueued.
  void AwaitJob(int64_t block);
  // Makes later work in `stream` wait for the last job that computes the roots of a block.
  Status WaitForRoots(int64_t block, cudaStream_t stream) { return order_.WaitForRoots(block, stream); }
  // If a step takes snapshots, submits a job for them. The job starts after all work that the step's stream contains
  // now.
  Status Submit(const StepArgs& args, const PlanView& plan);
  // Returns the first error of a job since the last call of this function; see JobThread::TakeError().
  Status TakeError() { return thread_->TakeError(); }

 private:
  AsyncRoots() = default;
  Status Run(const Job& job);

  OwnedHandles handles_;
  std::unique_ptr<RootSolver> solver_;
  AsyncOrder order_;
  int device_ = 0;
  EnqueueFunction enqueue_;
  std::vector<Job> jobs_;  // by slot of thread_ (JobThread::NextSlot)
  std::unique_ptr<JobThread> thread_;
};

}  // namespace shampoo::cuda

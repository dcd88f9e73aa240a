// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "core/backend/cuda/plugin/cuda_handles.h"

namespace shampoo::cuda {

// With root_async, jobs compute inverse roots while steps continue (AsyncRoots). This class uses CUDA events to make
// each job wait for the step that starts it, and to make steps wait for jobs. Jobs are numbered from 1. A step records
// the start of its job in the stream of the step. A thread later enqueues the job in the stream of the roots. The
// stream of the roots runs its work in order, so waiting for a job also waits for all earlier jobs.
class AsyncOrder {
 public:
  // steps: the largest number of steps between a snapshot and the first use of its roots.
  Status Create(int64_t block_count, int64_t steps);
  // Returns the number of start events, which is also the number of end events.
  size_t size() const { return done_.size(); }

  // Called by the thread that makes the steps:
  //
  // Records that the next job may start after all work that `stream` contains now. Writes the number of the job to
  // *job.
  Status RecordStart(cudaStream_t stream, int64_t* job);
  // Records that job number `job` computes the roots of a block.
  void SetJob(int64_t block, int64_t job) { last_job_[static_cast<size_t>(block)] = job; }
  // Returns the number of the last job that computes the roots of a block. Returns 0 if there is no such job, or if a
  // call of WaitForRoots() has already enqueued a wait for this job or for a later one.
  int64_t JobToWaitFor(int64_t block) const;
  // Makes later work in `stream` wait for the last job that computes the roots of a block. The job must already be
  // enqueued.
  Status WaitForRoots(int64_t block, cudaStream_t stream);

  // Called by the thread that enqueues jobs:
  //
  // Makes later work in `roots`, the stream of the roots, wait until the job may start (RecordStart).
  Status WaitForStart(cudaStream_t roots, int64_t job) const;
  // Records the end of the job. All work of the job must already be enqueued. If recording fails, waits until this work
  // has ended.
  Status RecordEnd(cudaStream_t roots, int64_t job) const;

 private:
  static cudaEvent_t EventOf(const std::vector<OwnedEvent>& events, int64_t job) {
    return events[static_cast<size_t>(job) % events.size()].get();
  }

  // Job j uses the events at index j modulo the number of events. If an event has been recorded again for a later job,
  // waiting for the event lasts until the start or the end of the later job: longer than necessary, but correct.
  std::vector<OwnedEvent> start_, done_;
  std::vector<int64_t> last_job_;  // by block; 0: the block has had no job
  int64_t started_ = 0;            // the number of the last job whose start was recorded
  int64_t waited_ = 0;             // the last job for which WaitForRoots() has enqueued a wait; 0: none
};

}  // namespace shampoo::cuda

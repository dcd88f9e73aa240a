// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "core/backend/cuda/plugin/cuda_handles.h"

namespace shampoo::cuda {

// Orders the steps and the jobs that compute their roots (root_async), with events. Jobs are numbered from 1. A step
// records the start of its job in its own stream, and a thread enqueues the job later in the stream of the roots. That
// stream runs its work in order, so waiting for a job also waits for all earlier ones.
class AsyncOrder {
 public:
  // steps: the largest number of steps between a snapshot and the first use of its roots.
  Status Create(int64_t block_count, int64_t steps);
  // Returns how many jobs have events of their own.
  size_t size() const { return done_.size(); }

  // Called by the thread that makes the steps:
  //
  // Records that the next job may start after all work that `stream` contains now. Returns the number of this job in
  // *job.
  Status RecordStart(cudaStream_t stream, int64_t* job);
  // Records that this job computes the roots of a block.
  void SetJob(int64_t block, int64_t job) { last_job_[static_cast<size_t>(block)] = job; }
  // Returns the last job that computes the roots of a block, or 0 if there is none or if later steps already wait for
  // it.
  int64_t JobToWaitFor(int64_t block) const;
  // Makes later work in `stream` wait for the last job that computes the roots of a block. The job has been enqueued.
  Status WaitForRoots(int64_t block, cudaStream_t stream);

  // Called by the thread that enqueues jobs:
  //
  // Makes later work in the stream of the roots wait for the start of the job.
  Status WaitForStart(cudaStream_t roots, int64_t job) const;
  // Records that all work of the job has been enqueued. If that fails, waits for this work.
  Status RecordEnd(cudaStream_t roots, int64_t job) const;

 private:
  static cudaEvent_t EventOf(const std::vector<OwnedEvent>& events, int64_t job) {
    return events[static_cast<size_t>(job) % events.size()].get();
  }

  // Events by job, modulo the number of events. If an event has been recorded again for a later job, waiting for the
  // event also waits for that job. That wait is longer than necessary, but correct.
  std::vector<OwnedEvent> start_, done_;
  std::vector<int64_t> last_job_;  // by block; 0: none
  int64_t started_ = 0;            // the last job whose start was recorded
  int64_t waited_ = 0;             // later steps already wait for the jobs up to this one
};

}  // namespace shampoo::cuda

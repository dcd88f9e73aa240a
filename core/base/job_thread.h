// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/base/status.h"

namespace shampoo {

// A thread that runs jobs one after another, in the order in which they were submitted. Only one thread may submit
// jobs. That thread keeps the data of the jobs in a fixed number of slots, which are reused in turn, so that submitting
// a job allocates nothing. To submit a job, call NextSlot(), write the data to the returned slot, and call Submit().
//
// Like the threads of ThreadPool, a JobThread receives no signals. A JobThread has the default floating-point
// environment, so that results do not depend on the thread that created it.
class JobThread {
 public:
  using Job = std::function<Status(size_t slot)>;

  // Starts the thread. what: names the thread in the error message of Create(), such as "the thread of the roots". job:
  // called once for each submitted job, with the index of the slot that has the data of this job.
  static Status Create(const char* what, size_t slots, Job job, std::unique_ptr<JobThread>* out);
  // Waits until the running job has ended. Drops jobs that have not begun.
  ~JobThread();
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  // Returns the index of the slot for the next job. If all slots are in use, waits until the oldest job has ended.
  size_t NextSlot();
  // Submits the job in the slot that NextSlot() has returned. Returns the number of the job, counted from 1.
  int64_t Submit();
  // Waits until the job with this number, and all earlier ones, have ended.
  void WaitFor(int64_t number);
  // Returns the first error of the jobs that have ended since the last call of TakeError(). Returns success if none of
  // them failed. Does not wait.
  Status TakeError();

 private:
  JobThread(size_t slots, Job job) : job_(std::move(job)), slots_(slots) {}
  void Run();

  const Job job_;
  const size_t slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t submitted_ = 0;
  int64_t ended_ = 0;
  bool stopping_ = false;
  Status error_;
  std::thread thread_;
};

}  // namespace shampoo

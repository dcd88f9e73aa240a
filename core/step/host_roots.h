// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/backend/cuda/device_engine.h"
#include "core/base/executor.h"
#include "core/base/job_thread.h"
#include "core/base/team.h"
#include "core/blas/scratch.h"
#include "core/plan/plan.h"
#include "core/roots/ladder.h"
#include "core/roots/residual.h"
#include "core/rules/schedule.h"
#include "core/step/async_root_source.h"

namespace shampoo {

// Computes the async roots of an optimizer on a device if root_device=host. The host computes these roots, with the
// root methods of the CPU. A thread fetches the factor matrices of a step in chunks, computes their roots with the
// threads of the host, and copies the roots to the device, while steps continue. The fetch of a chunk overlaps the
// computation of the previous chunk.
class HostRoots final : public AsyncRootSource {
 public:
  // Allocates all memory and starts the threads. *out is nullptr if this rank has no async roots.
  static Status Create(const PlanData& plan, std::shared_ptr<const cuda::DeviceEngine> engine,
                       std::unique_ptr<HostRoots>* out);
  // Waits until the thread has ended. The thread skips roots that it has not begun to compute.
  ~HostRoots() override;
  HostRoots(const HostRoots&) = delete;
  HostRoots& operator=(const HostRoots&) = delete;

  Status Prepare(const StepRoots& step) override;
  Status StartFromStep(const StepRoots& step) override;
  bool TakeHostReport(RootTask task, int64_t factor, RootReport* report) const override;

  // Describes a job, which computes the roots of some blocks.
  struct Source {
    const std::vector<RootTask>* tasks;  // by block
    RootTask task;                       // the job consists of the blocks with this task
    const std::vector<cuda::DeviceSettings>* settings;
    const int64_t* steps;     // by block or group: the step whose factor matrices the roots are computed from
    bool steps_are_by_block;  // false: `steps` is by group
    // The arena from which snapshots are copied. nullptr: the step that was enqueued last has already copied the factor
    // matrices to the memory from which the thread fetches them.
    const char* arena;
    void* stream;
  };
  // Submits a job to the thread.
  Status Start(const Source& source);
  // Waits for the last job of each block whose task takes a snapshot or uses the roots of a snapshot. The wait ends
  // when the roots have been computed and their copies to the device have been enqueued. Returns the first error of the
  // thread, and clears it.
  Status WaitFor(const std::vector<RootTask>& tasks);
  // Returns the first error of the thread, and clears it. Does not wait.
  Status TakeError() { return thread_->TakeError(); }
  // Returns the report about a root from the last job that computed this root. factor: the number of the root's factor
  // matrix in the plan. Valid after WaitFor().
  const RootReport& ReportOf(int64_t factor) const { return reports_[static_cast<size_t>(factor)]; }

 private:
  struct Job {
    int64_t number = 0;
    std::vector<cuda::DeviceSettings> settings;  // by group
    std::vector<int64_t> steps;  // by block: the step of the block's factor matrices; 0: the block is not in the job
  };
  // The memory of a thread that computes roots.
  struct Slot {
    std::vector<double> elements;
    std::vector<int32_t> ints;
    std::vector<double> factor;  // copy of the factor matrix, to compute the root's residual (track_root_residuals)
    blas::Scratch scratch;
  };
  // Consecutive roots of a job that fit in one buffer.
  struct Chunk {
    int32_t buffer = 0;
    std::vector<cuda::HostRoot> roots;
  };

  HostRoots(const PlanData& plan, std::shared_ptr<const cuda::DeviceEngine> engine);
  Status Allocate(const std::vector<const Block*>& blocks);
  Status Run(const Job& job);
  Status RunChunks(const Job& job);
  // Fills the chunk with roots, beginning at next_root_, and enqueues the copies of their matrices.
  Status Fetch(Chunk* chunk);
  void Compute(const Job& job, const Chunk& chunk);
  void ComputeOne(const Job& job, const cuda::HostRoot& root, Team::Worker* worker);
  template <typename Real>
  RootReport RootOf(const Job& job, const cuda::HostRoot& root, Team::Worker* worker);

  const PlanData& plan_;
  std::shared_ptr<const cuda::DeviceEngine> engine_;
  cuda::HostRootJobs on_device_;
  cuda::HostRootMemory memory_;
  std::vector<int64_t> first_factor_;   // by block
  std::vector<RootReport> reports_;     // by factor matrix
  std::unique_ptr<Executor> executor_;  // the threads that compute roots
  std::vector<Slot> slots_;             // by slot of the executor
  std::vector<double> recovery_elements_;
  std::vector<int32_t> recovery_ints_;
  RecoveryMemory recovery_;
  // The state of the running job.
  std::vector<std::pair<int64_t, int32_t>> roots_;  // block and dim of each root of the job
  size_t next_root_ = 0;
  std::array<Chunk, 2> chunks_;
  std::vector<Job> jobs_;          // submitted jobs, by slot of thread_ (JobThread::NextSlot)
  std::vector<int64_t> last_job_;  // by block: the number of its last job; 0: there is none
  std::atomic<bool> stopping_ = false;
  std::unique_ptr<JobThread> thread_;
};

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/async_roots.h"

#include <algorithm>
#include <utility>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/device_memory.h"

namespace shampoo::cuda {

Status AsyncRoots::Create(const std::vector<RootSizes>& sizes, int64_t block_count, int64_t steps,
                          std::unique_ptr<AsyncRoots>* out) {
  std::unique_ptr<AsyncRoots> made(new AsyncRoots);
  SHAMPOO_RETURN_IF_ERROR(
      made->handles_.Create(OwnedHandles::Stream::kOwnLowPriority, OwnedHandles::Libraries::kBlasAndSolver));
  SHAMPOO_RETURN_IF_ERROR(RootSolver::Create(sizes, made->handles(), &made->solver_));
  SHAMPOO_RETURN_IF_ERROR(made->order_.Create(block_count, steps));
  made->jobs_.resize(made->order_.size());
  for (Job& job : made->jobs_) job.tasks.resize(static_cast<size_t>(block_count));
  *out = std::move(made);
  return {};
}

Status AsyncRoots::StartThread(int device, int64_t group_count, EnqueueFunction enqueue) {
  device_ = device;
  enqueue_ = std::move(enqueue);
  for (Job& job : jobs_) job.groups.resize(static_cast<size_t>(group_count));
  return JobThread::Create(
      "the thread of root_async", jobs_.size(), [this](size_t slot) { return Run(jobs_[slot]); }, &thread_);
}

AsyncRoots::~AsyncRoots() {
  thread_.reset();
  if (handles().stream != nullptr) (void)cudaStreamSynchronize(handles().stream);
}

void AsyncRoots::AwaitJob(int64_t block) {
  const int64_t job = order_.JobToWaitFor(block);
  if (job != 0) thread_->WaitFor(job);
}

Status AsyncRoots::Submit(const StepArgs& args, const PlanView& plan) {
  const RootTask* const end = args.tasks + plan.block_count;
  if (std::find(args.tasks, end, RootTask::kTakeSnapshot) == end) return {};
  Job& job = jobs_[thread_->NextSlot()];
  SHAMPOO_RETURN_IF_ERROR(order_.RecordStart(static_cast<cudaStream_t>(args.stream), &job.number));
  std::copy_n(args.groups, plan.group_count, job.groups.begin());
  std::copy(args.tasks, end, job.tasks.begin());
  for (int64_t b = 0; b < plan.block_count; ++b) {
    if (args.tasks[b] == RootTask::kTakeSnapshot) order_.SetJob(b, job.number);
  }
  (void)thread_->Submit();
  return {};
}

Status AsyncRoots::Run(const Job& job) {
  const CaptureModeScope mode;
  // Do not use a DeviceScope: its destructor would make device 0, the initial device of each thread, current again, and
  // thus create a context on device 0.
  SHAMPOO_CUDA_TRY(cudaSetDevice(device_));
  SHAMPOO_RETURN_IF_ERROR(order_.WaitForStart(handles().stream, job.number));
  Status status = enqueue_(*this, job);
  // Record the end even if enqueue_ has failed, because part of the work may have been enqueued.
  Status ended = order_.RecordEnd(handles().stream, job.number);
  return status.ok() ? std::move(ended) : std::move(status);
}

}  // namespace shampoo::cuda

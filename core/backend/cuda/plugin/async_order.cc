// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/async_order.h"

#include <algorithm>

#include "core/backend/cuda/plugin/cuda_call.h"

namespace shampoo::cuda {
namespace {

constexpr int64_t kMaxEvents = 128;

}  // namespace

Status AsyncOrder::Create(int64_t block_count, int64_t steps) {
  const auto count = static_cast<size_t>(std::min(steps + 1, kMaxEvents));
  start_.resize(count);
  done_.resize(count);
  for (OwnedEvent& event : start_) SHAMPOO_RETURN_IF_ERROR(event.Create());
  for (OwnedEvent& event : done_) SHAMPOO_RETURN_IF_ERROR(event.Create());
  last_job_.resize(static_cast<size_t>(block_count));
  return {};
}

Status AsyncOrder::RecordStart(cudaStream_t stream, int64_t* job) {
  SHAMPOO_CUDA_TRY(cudaEventRecord(EventOf(start_, started_ + 1), stream));
  *job = ++started_;
  return {};
}

int64_t AsyncOrder::JobToWaitFor(int64_t block) const {
  const int64_t job = last_job_[static_cast<size_t>(block)];
  return job > waited_ ? job : 0;
}

Status AsyncOrder::WaitForRoots(int64_t block, cudaStream_t stream) {
  const int64_t job = JobToWaitFor(block);
  if (job == 0) return {};
  SHAMPOO_CUDA_TRY(cudaStreamWaitEvent(stream, EventOf(done_, job), 0));
  waited_ = std::max(waited_, job);
  return {};
}

Status AsyncOrder::WaitForStart(cudaStream_t roots, int64_t job) const {
  SHAMPOO_CUDA_TRY(cudaStreamWaitEvent(roots, EventOf(start_, job), 0));
  return {};
}

Status AsyncOrder::RecordEnd(cudaStream_t roots, int64_t job) const {
  Status status = StatusOf(cudaEventRecord(EventOf(done_, job), roots), "cudaEventRecord");
  // If the event was not recorded, steps cannot wait for it. So this thread waits until the work of the job has ended.
  if (!status.ok()) (void)cudaStreamSynchronize(roots);
  return status;
}

}  // namespace shampoo::cuda

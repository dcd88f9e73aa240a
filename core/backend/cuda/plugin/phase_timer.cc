// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/phase_timer.h"

#include <algorithm>

#include "core/backend/cuda/plugin/cuda_call.h"

namespace shampoo::cuda {

Status PhaseTimer::Create(size_t changes, size_t runs, std::unique_ptr<PhaseTimer>* out) {
  std::unique_ptr<PhaseTimer> made(new PhaseTimer);
  made->events_.resize(changes + 1);
  made->phases_.resize(changes + 1, kNoPhase);
  made->runs_.resize(runs);
  for (OwnedEvent& event : made->events_) SHAMPOO_RETURN_IF_ERROR(event.CreateTimed());
  for (Run& run : made->runs_) {
    SHAMPOO_RETURN_IF_ERROR(run.begin.CreateTimed());
    SHAMPOO_RETURN_IF_ERROR(run.end.CreateTimed());
  }
  *out = std::move(made);
  return {};
}

void PhaseTimer::Begin() {
  used_ = 0;
  is_complete_ = false;
}

Status PhaseTimer::Change(cudaStream_t stream, int phase) {
  if (used_ > 0 && phases_[used_ - 1] == phase) return {};
  if (used_ == events_.size()) return Internal("a step has more phase changes than events to measure them");
  SHAMPOO_CUDA_TRY(cudaEventRecord(events_[used_].get(), stream));
  phases_[used_++] = phase;
  return {};
}

Status PhaseTimer::End(cudaStream_t stream) {
  SHAMPOO_RETURN_IF_ERROR(Leave(stream));
  is_complete_ = true;
  return {};
}

Status PhaseTimer::BeginRun(cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto free = std::find_if(runs_.begin(), runs_.end(), [](const Run& run) { return !run.is_pending; });
  run_ = free != runs_.end() ? &*free : nullptr;
  if (run_ != nullptr) SHAMPOO_CUDA_TRY(cudaEventRecord(run_->begin.get(), stream));
  return {};
}

Status PhaseTimer::EndRun(cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (run_ == nullptr) return {};
  SHAMPOO_CUDA_TRY(cudaEventRecord(run_->end.get(), stream));
  run_->is_pending = true;
  run_ = nullptr;
  return {};
}

Status PhaseTimer::Collect() {
  for (size_t i = 0; is_complete_ && i + 1 < used_; ++i) {
    if (phases_[i] != kNoPhase) SHAMPOO_RETURN_IF_ERROR(Add(events_[i], events_[i + 1], phases_[i]));
  }
  Begin();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Run& run : runs_) {
    if (!run.is_pending) continue;
    const cudaError_t state = cudaEventQuery(run.end.get());
    if (state == cudaErrorNotReady) {
      (void)cudaGetLastError();  // clears cudaErrorNotReady, which is not an error here
      continue;
    }
    SHAMPOO_RETURN_IF_ERROR(StatusOf(state, "cudaEventQuery"));
    SHAMPOO_RETURN_IF_ERROR(Add(run.begin, run.end, static_cast<int>(StepPhase::kRoots)));
    run.is_pending = false;
  }
  return {};
}

Status PhaseTimer::Add(const OwnedEvent& begin, const OwnedEvent& end, int phase) {
  float milliseconds = 0;
  SHAMPOO_CUDA_TRY(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
  seconds_[static_cast<size_t>(phase)] += 1e-3 * static_cast<double>(milliseconds);
  return {};
}

}  // namespace shampoo::cuda

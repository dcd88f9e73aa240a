// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "core/backend/cuda/plugin/cuda_handles.h"
#include "core/backend/step_phase.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// Measures how long each phase of the steps takes on the device (key track_times). A step records a CUDA event in the
// caller's stream whenever the phase changes. The host reads the times later, after it has waited for the step, so that
// measuring adds no wait.
//
// Async roots are computed in another stream, in parallel to later steps. Each run, which is one computation of async
// roots, has its own events. The host reads the time of a run after the run has ended. The thread that enqueues runs
// may call BeginRun() and EndRun() while another thread calls Collect().
class PhaseTimer {
 public:
  // changes: the largest number of phase changes in a step. runs: for how many runs of async roots there are events. A
  // run uses its events until Collect() has read its time.
  static Status Create(size_t changes, size_t runs, std::unique_ptr<PhaseTimer>* out);

  // Begins a step. If Collect() was not called since the previous step, the times of that step are lost.
  void Begin();
  // Begins a phase. The work that is enqueued from now on belongs to this phase.
  Status Enter(cudaStream_t stream, StepPhase phase) { return Change(stream, static_cast<int>(phase)); }
  // Ends the phase. Work that is enqueued from now on belongs to no phase, because this work may wait for other ranks.
  Status Leave(cudaStream_t stream) { return Change(stream, kNoPhase); }
  // Ends the step.
  Status End(cudaStream_t stream);

  // Begin and end a run of async roots. If all events are in use, the run is not measured.
  Status BeginRun(cudaStream_t stream);
  Status EndRun(cudaStream_t stream);

  // Adds the times of the last step to seconds(). Also adds the times of the runs of async roots that have ended, which
  // count as StepPhase::kRoots. Before this call, the host must wait for the step.
  Status Collect();
  // Returns the total time of each StepPhase in seconds.
  const double* seconds() const { return seconds_.data(); }

 private:
  static constexpr int kNoPhase = -1;
  struct Run {
    OwnedEvent begin, end;
    bool is_pending = false;  // the run has ended, and Collect() has not read its time yet
  };

  PhaseTimer() = default;
  Status Change(cudaStream_t stream, int phase);
  Status Add(const OwnedEvent& begin, const OwnedEvent& end, int phase);

  std::vector<OwnedEvent> events_;
  std::vector<int> phases_;   // by event: the phase that begins with the event
  size_t used_ = 0;           // number of events that the current step has recorded
  bool is_complete_ = false;  // End() has been called for the current step
  std::mutex mutex_;          // guards runs_ and run_
  std::vector<Run> runs_;
  Run* run_ = nullptr;  // the run that has begun but not ended; nullptr if no run is being measured
  std::array<double, kStepPhaseCount> seconds_{};
};

// Measures the phases of one step. If `timer` is nullptr, the functions do nothing.
class StepPhases {
 public:
  StepPhases(PhaseTimer* timer, cudaStream_t stream) : timer_(timer), stream_(stream) {
    if (timer_ != nullptr) timer_->Begin();
  }
  // See PhaseTimer.
  Status Enter(StepPhase phase) const { return timer_ != nullptr ? timer_->Enter(stream_, phase) : Status(); }
  Status Leave() const { return timer_ != nullptr ? timer_->Leave(stream_) : Status(); }
  Status End() const { return timer_ != nullptr ? timer_->End(stream_) : Status(); }

 private:
  PhaseTimer* timer_;
  cudaStream_t stream_;
};

}  // namespace shampoo::cuda

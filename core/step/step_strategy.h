// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/cpu/step_item.h"
#include "core/base/status.h"
#include "core/state/optimizer_state.h"
#include "core/step/bound_buffers.h"
#include "core/step/step_history.h"

namespace shampoo {

// The parts of an optimizer that its steps read and write. The optimizer owns all of them.
struct StepInputs {
  const PlanData& plan;
  OptimizerState& state;
  const BoundBuffers& buffers;
  StepHistory& history;
};

// How an optimizer makes its steps: alone (LocalStep), with ranks that share the work (ReplicatedStep), with ranks that
// hold shards of the parameters (GatheredStep), or on a device (DeviceStep). Chosen once, by create.
class StepStrategy : public StateObserver {
 public:
  // caller_status: an error in the arguments of this rank's caller, which the other ranks must know; otherwise success.
  virtual Status Step(Status caller_status, void* stream) = 0;

  // Reports the first error of the steps enqueued on a device since the last report. wait: for steps under way.
  // failed_call: the number of the call whose step failed; 0: none.
  virtual Status ReportSteps(bool wait, int64_t* failed_call) = 0;

  // Thread time of a phase in all steps so far, with track_times.
  virtual double Seconds(StepPhase phase) const = 0;

  // Call after other buffers were bound.
  virtual void OnBindBuffers() = 0;
  // Call after a hyper-parameter on which inverse roots depend was changed.
  virtual void OnChangeRootSettings() = 0;
};

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "core/backend/cpu/step_item.h"
#include "core/base/status.h"
#include "core/state/optimizer_state.h"
#include "core/step/bound_buffers.h"
#include "core/step/step_history.h"

namespace shampoo {

// The objects of an optimizer that its steps use. The optimizer owns them.
struct StepInputs {
  const PlanData& plan;
  OptimizerState& state;
  const BoundBuffers& buffers;
  StepHistory& history;
};

// How an optimizer makes its steps. Optimizer::Create() chooses the class:
//   LocalStep       one replica on the CPU
//   ReplicatedStep  several replicas on the CPU, which share the work
//   GatheredStep    shards on the CPU whose blocks are gathered (shard_mode=gather)
//   DeviceStep      parameters on a device
class StepStrategy : public StateObserver {
 public:
  // caller_status: the error of the arguments that the caller passed on this rank, or success. The step also
  // reports such an error to the other ranks.
  virtual Status Step(Status caller_status, void* stream) = 0;

  // Writes, for each parameter, the sum of (1 - blend) times the parameter and blend times its average. weights[p] is
  // the memory that receives the sum of parameter p, or nullptr to skip the parameter.
  virtual Status Export(Status caller_status, double blend, std::span<void* const> weights) = 0;

  // If the device has rejected a step, and no call has returned the error of this step yet, returns this error. If wait
  // is true, first waits for pending steps. Sets *failed_call to the number (counted from 1) of the call that enqueued
  // the rejected step, or to 0 if there is no such step. Also returns other errors, such as a prior failure.
  virtual Status ReportSteps(bool wait, int64_t* failed_call) = 0;

  // Returns the seconds that a phase has taken in all steps so far, if the key track_times is set. On the CPU this is
  // the sum over all threads; on a device it is the time in the stream of the steps.
  virtual double Seconds(StepPhase phase) const = 0;

  // Call after the caller has bound buffers.
  virtual void OnBindBuffers() = 0;
  // Call after a change of a hyper-parameter that inverse roots depend on.
  virtual void OnChangeRootSettings() = 0;
};

}  // namespace shampoo

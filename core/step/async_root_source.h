// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/backend/cuda/device_engine.h"
#include "core/roots/residual.h"
#include "core/rules/schedule.h"

namespace shampoo {

// Computes the async roots (root_async) of an optimizer on a device.
class AsyncRootSource {
 public:
  // Describes the step that is about to be enqueued or, in StartFromStep(), the step that was enqueued last.
  struct StepRoots {
    std::vector<RootTask>* tasks;                       // by block
    bool any_task;                                      // at least one block, of this or another rank, has a task
    const std::vector<cuda::DeviceSettings>* settings;  // by group
    const int64_t* steps;                               // by group: the number of the step
    const char* state_in;                               // the arena that the step reads
    const int64_t* block_counters;  // by block: its snapshot_step or gradient_count in state_in (see DeviceCounters)
    void* stream;
  };

  virtual ~AsyncRootSource() = default;
  // Call before enqueuing a step that is not captured into a CUDA graph. Waits until the host has computed the async
  // roots that the step uses, or until their computation has been enqueued on the device. Changes a task kFromSnapshot
  // to kAdoptDeviceRoots if the roots of the snapshot are now available to the device. If an earlier computation of
  // async roots has failed, returns its error.
  virtual Status Prepare(const StepRoots& step) = 0;
  // Call after the step was enqueued. Starts to compute the roots of the snapshots that the step takes.
  virtual Status StartFromStep(const StepRoots& step) = 0;
  // If a step with this task has used a root that the host computed, copies the RootReport of that root to *report and
  // returns true. factor: the number of the factor matrix in the plan.
  virtual bool TakeHostReport(RootTask task, int64_t factor, RootReport* report) const = 0;
};

// The device computes the async roots itself: each enqueued step also starts their computation.
class DeviceAsyncRoots final : public AsyncRootSource {
 public:
  explicit DeviceAsyncRoots(std::shared_ptr<const cuda::DeviceEngine> engine) : engine_(std::move(engine)) {}

  Status Prepare(const StepRoots& step) override { return engine_->AwaitAsyncRoots(*step.tasks); }
  Status StartFromStep(const StepRoots& /*step*/) override { return {}; }
  bool TakeHostReport(RootTask /*task*/, int64_t /*factor*/, RootReport* /*report*/) const override { return false; }

 private:
  std::shared_ptr<const cuda::DeviceEngine> engine_;
};

}  // namespace shampoo

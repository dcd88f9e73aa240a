// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend/cuda/device_engine.h"
#include "core/backend/cuda/device_state_memory.h"
#include "core/rules/schedule.h"
#include "core/step/async_root_source.h"
#include "core/step/device_counters.h"
#include "core/step/device_peers.h"
#include "core/step/step_strategy.h"

namespace shampoo {

// Records for which blocks the device or the host has started to compute async roots (root_async). Started roots are
// usable as long as only steps with the same settings change the state. Otherwise they are computed again when they are
// due.
class StartedRoots {
 public:
  explicit StartedRoots(size_t blocks) : step_of_block_(blocks) {}

  // Returns whether the roots of the snapshot that the block took in step `snapshot_step` were started and are usable.
  bool AreReady(size_t block, int64_t snapshot_step) const { return usable_ && step_of_block_[block] == snapshot_step; }
  // Forgets all roots unless the last recorded step has written `arena`.
  void ForgetUnlessFrom(const char* arena);
  void Forget();
  // Call after a step was enqueued. Records the blocks that take a snapshot in this step, because the computation
  // of their roots has been started. tasks: by block; steps: by group; arena: the arena that the step writes.
  void Record(const PlanData& plan, std::span<const RootTask> tasks, std::span<const int64_t> steps, const char* arena);
  // Records that the roots of the snapshot that the block took in step `step` were started.
  void SetStarted(size_t block, int64_t step) { step_of_block_[block] = step; }
  // Call after the capture of a step that writes another arena than it reads. From then on, AreReady() returns false,
  // because the host does not see the replays of this step.
  void DisableAfterCapture() { usable_ = false; }

 private:
  std::vector<int64_t> step_of_block_;  // the step of the snapshot whose roots were started; 0: none
  const char* arena_ = nullptr;         // the arena that the last recorded step writes
  bool usable_ = true;
};

// The step of an optimizer on a device. The host makes the checks that need no data of the device and enqueues the
// step. The device makes the other checks and can reject the step on its own (docs/adr/0015). With status_lag=0, the
// call that enqueues a step returns the error of this step. With status_lag=1, the next call returns it.
class DeviceStep final : public StepStrategy {
 public:
  // memory: inputs.state owns this object.
  DeviceStep(const StepInputs& inputs, std::shared_ptr<const cuda::DeviceEngine> engine,
             cuda::DeviceStateMemory* memory, std::unique_ptr<DevicePeers> peers,
             std::unique_ptr<AsyncRootSource> async_roots);

  Status Step(Status caller_status, void* stream) override;
  Status Export(Status caller_status, double blend, std::span<void* const> weights) override;
  Status ReportSteps(bool wait, int64_t* failed_call) override;
  double Seconds(StepPhase phase) const override { return engine_->Seconds(phase); }
  void OnBindBuffers() override { buffers_changed_ = true; }
  void OnChangeRootSettings() override { started_roots_.Forget(); }

  Status FinishSteps() override;
  void OnInitialize() override;
  void OnWrite(bool step_counters) override;
  void OnReplace() override;
  void OnUnseenWrite() override;

 private:
  // The last step that was enqueued outside of a capture. If `ticket` is 0, no step is pending.
  struct PendingStep {
    int64_t ticket = 0;  // the number that DeviceEngine::Step() gave to the step
    const char* state_in = nullptr;
    char* state_out = nullptr;
    // By group: the number of the step; 0: the group is not active. For an export, each number is the step
    // counter of the group plus 1, because RaiseRejection() subtracts 1.
    std::vector<int64_t> steps;
    std::vector<unsigned char> has_gradient;  // by group: whether this rank has a gradient of the group
    std::vector<unsigned char> takes_part;    // by parameter: as in NextStep
    std::vector<RootTask> tasks;              // by block
    bool any_task = false;
    // StepReport::steps and StepReport::skipped_steps in the last report before this step.
    int64_t steps_before = 0;
    int64_t skipped_before = 0;
  };
  // The step that is about to be enqueued.
  struct NextStep {
    std::vector<cuda::DeviceSettings> settings;  // by group
    std::vector<GroupSchedule> schedules;        // by group
    std::vector<int64_t> steps;                  // by group; 0: the group is not active
    std::vector<unsigned char> has_gradient;     // by group: whether this rank has a gradient of the group
    // By group: whether the group has a parameter with gathered blocks and no elements on this rank. Never changes.
    std::vector<unsigned char> has_unheld_param;
    // By parameter: whether the parameter takes part in the step, as far as this rank knows. A parameter with
    // gathered blocks and no elements on this rank may have a gradient on other ranks. The flag of such a parameter is
    // set, and the devices find out whether there is a gradient.
    std::vector<unsigned char> takes_part;
    std::vector<RootTask> tasks;                 // by block
    std::vector<int64_t> block_counters_before;  // by block: as in DeviceCounters, before the step
    int64_t first_task = -1;                     // the first block that has a task on any rank; -1: none
    bool any_refresh = false;                    // whether a task of this rank is a refresh
    bool exports = false;                        // true: an export that several ranks make together, not a step
    double blend = 0;
    std::vector<Buffers> exported;  // by parameter: the parameter, and the memory that receives the average

    // Sets the members that describe an export. weights: by parameter, the memory that receives the average. If
    // this rank only reports an error, `weights` is empty.
    void SetExport(double blend, std::span<const Buffers> bound, std::span<void* const> weights);
    AsyncRootSource::StepRoots Roots(const char* state_in, void* stream);
  };

  Status FinishEarlierSteps(bool captured, const char* arena, Status* fetched);
  Status ExportWithPeers(Status caller_status, double blend, std::span<void* const> weights);
  void SetSettings();
  Status Prepare(bool captured);
  void ListTasks(bool captured);
  Status PrepareAsyncRoots();
  Status Enqueue(bool captured, const Status& checked, bool again = false);
  Status EnqueueOrAbort(Status checked);
  void RecordEnqueued(bool captured, int64_t ticket);
  Status PollReport(int64_t ticket);
  Status FetchCounters(const char* arena);
  Status RaiseRejection(const char* prefix);
  Status RecordRoots(int64_t ticket);

  StepInputs inputs_;
  std::shared_ptr<const cuda::DeviceEngine> engine_;
  cuda::DeviceStateMemory* memory_;
  std::unique_ptr<DevicePeers> peers_;
  std::unique_ptr<AsyncRootSource> async_roots_;
  bool lags_;  // status_lag is 1
  bool buffers_changed_ = true;
  DeviceCounters counters_;
  StartedRoots started_roots_;
  PendingStep pending_;
  NextStep next_;
  int64_t last_ticket_ = 0;        // of the last step or export outside of a capture; negative for an export
  cuda::StepReport report_{};      // the report that was read last
  int64_t raised_rejections_ = 0;  // number of rejections whose error was returned or discarded
};

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend/cuda/device_engine.h"
#include "core/backend/cuda/device_state_memory.h"
#include "core/rules/schedule.h"
#include "core/step/device_replicas.h"
#include "core/step/step_strategy.h"

namespace shampoo {

// What the host knows of the step counters, and of the states snapshot_step, in an arena on a device.
class DeviceCounters {
 public:
  explicit DeviceCounters(const PlanData& plan);

  bool has_snapshots() const { return has_snapshots_; }
  // By group, and by block of this rank (0 without root_async).
  std::vector<int64_t> steps;
  std::vector<int64_t> snapshot_steps;

  // Whether these are the values in the arena.
  bool Know(const char* arena) const { return KnowUnlessReplayed(arena) && !may_be_replayed_; }
  // The same, except that replays of captured steps, which the host does not see, may have changed them since.
  bool KnowUnlessReplayed(const char* arena) const { return arena_ == arena && !has_unseen_write_; }

  void SetKnown(const char* arena) { arena_ = arena; }
  // From the arena, in the order of the stream.
  Status Fetch(const cuda::DeviceEngine& engine, const char* arena, void* stream);
  // From the engine, as steps that are finished have left them.
  void TakeSnapshotSteps(const cuda::DeviceEngine& engine);
  void SetInitial(const char* arena);
  void Forget() { arena_ = nullptr; }
  void MarkUnseenWrite() { has_unseen_write_ = true; }
  bool has_unseen_write() const { return has_unseen_write_; }
  // A step was captured: from now on unseen replays may change the values in the arena at any time.
  void MarkCaptured() { may_be_replayed_ = true; }

 private:
  const char* arena_ = nullptr;  // nullptr: of none
  bool may_be_replayed_ = false;
  bool has_unseen_write_ = false;
  bool has_snapshots_ = false;  // a block of this rank has the state snapshot_step
};

// Inverse roots that the device computes while steps go on (root_async). They can be used as long as each state
// followed from the one before by a step, with the same settings; otherwise they are computed again when they are due.
class AsyncRoots {
 public:
  explicit AsyncRoots(size_t blocks) : step_of_block_(blocks) {}

  // Whether the roots for the snapshot of this step are there.
  bool Have(size_t block, int64_t snapshot_step) const { return usable_ && step_of_block_[block] == snapshot_step; }
  void ForgetUnlessOf(const char* arena);
  void Forget();
  // A step on this arena was enqueued, which takes snapshots of some blocks.
  void SetArena(const char* arena) { arena_ = arena; }
  void SetStarted(size_t block, int64_t step) { step_of_block_[block] = step; }
  // A captured step moves the state from one arena to another, unseen.
  void DisableAfterCapture() { usable_ = false; }

 private:
  std::vector<int64_t> step_of_block_;  // 0: none
  const char* arena_ = nullptr;
  bool usable_ = true;
};

// The step of an optimizer on a device. The host checks what it can, and enqueues the rest; the device rejects a step
// by itself if it must (docs/adr/0015). What a step found is returned by the next call, or with status_lag 0 by its
// own.
class DeviceStep final : public StepStrategy {
 public:
  // memory: that of the state, owned by it.
  DeviceStep(const StepInputs& inputs, std::shared_ptr<const cuda::DeviceEngine> engine,
             cuda::DeviceStateMemory* memory, std::unique_ptr<DeviceReplicas> replicas);

  Status Step(Status caller_status, void* stream) override;
  Status ReportSteps(bool wait, int64_t* failed_call) override;
  double Seconds(StepPhase /*phase*/) const override { return 0; }
  void OnBindBuffers() override { buffers_changed_ = true; }
  void OnChangeRootSettings() override { async_roots_.Forget(); }

  Status FinishSteps() override;
  void OnInitialize() override;
  void OnWrite(bool step_counters) override;
  void OnReplace() override;
  void OnUnseenWrite() override;

 private:
  // A step that was enqueued, and not captured. Its results are pending unless `ticket` is 0.
  struct PendingStep {
    int64_t ticket = 0;
    const char* state_in = nullptr;
    char* state_out = nullptr;
    std::vector<int64_t> steps;   // by group, the step that it is; 0: the group is not active
    std::vector<RootTask> tasks;  // by block
    bool any_task = false;
    int64_t steps_before = 0;  // that had been made
    int64_t skipped_before = 0;
  };
  // A step that is about to be enqueued.
  struct NextStep {
    std::vector<cuda::DeviceSettings> settings;
    std::vector<GroupSchedule> schedules;        // by group
    std::vector<int64_t> steps;                  // by group; 0: the group is not active
    std::vector<RootTask> tasks;                 // by block
    std::vector<int64_t> snapshot_steps_before;  // by block: the state snapshot_step that the step finds
    int64_t first_task = -1;                     // the first block with one, of any rank; -1: none
    bool any_refresh = false;
  };

  Status Prepare(bool captured);
  void ListTasks();
  Status Enqueue(bool captured, const Status& checked);
  void RecordEnqueued(bool captured, int64_t ticket);
  void RecordAsyncRoots(bool enqueued);
  Status TakeReport(int64_t ticket);
  Status FetchCounters();
  Status RaiseRejection(const char* when);
  Status RecordRoots(int64_t ticket);

  StepInputs inputs_;
  std::shared_ptr<const cuda::DeviceEngine> engine_;
  cuda::DeviceStateMemory* memory_;
  std::unique_ptr<DeviceReplicas> replicas_;
  bool lags_;  // status_lag
  bool buffers_changed_ = true;
  DeviceCounters counters_;
  AsyncRoots async_roots_;
  PendingStep pending_;
  NextStep next_;
  int64_t last_ticket_ = 0;  // of the last step that was not captured
  cuda::StepReport report_{};
  int64_t raised_rejections_ = 0;
};

}  // namespace shampoo

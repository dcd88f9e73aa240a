// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend/cuda/engine.h"
#include "core/comm/communicator.h"

namespace shampoo {

// What an optimizer has more where its arena and its buffers lie in memory of a device. Its steps are asynchronous:
// they are given to the device, and what they have found is taken, as a rule by the next call.
struct OnDevice {
  std::unique_ptr<cuda::DeviceEngine> engine;
  void* stream = nullptr;  // of the last call that was given one
  bool lags = true;        // status_lag

  // The groups' step counters in an arena; nullptr: of none. Once a step has been captured they may be old at any time,
  // as the host does not see replays.
  const char* counters_of = nullptr;
  bool may_be_replayed = false;
  bool forgets = false;  // the host has said that it may have written an arena by itself
  std::vector<int64_t> counters;
  // By block of this rank, the state snapshot_step in the same arena; 0 without root_async.
  std::vector<int64_t> snapshot_steps;
  bool has_snapshots = false;  // a block of this rank has that state

  // The last step that was not captured; what it has found is not taken yet unless `ticket` is 0.
  struct Asked {
    int64_t ticket = 0;
    const char* state_in = nullptr;
    char* state_out = nullptr;
    std::vector<int64_t> steps;   // by group, the step that it is; 0: the group is not active
    std::vector<RootTask> tasks;  // by block
    bool any_task = false;
    int64_t steps_before = 0;  // that had been made
    int64_t skipped_before = 0;
  };
  Asked asked;
  int64_t last_ticket = 0;  // of `asked`, taken or not

  cuda::StepReport report{};
  int64_t raised = 0;  // so many refusals

  // What the next step is given.
  bool buffers_changed = true;
  std::vector<cuda::GroupNumbers> numbers;
  std::vector<int64_t> steps;
  std::vector<RootTask> tasks;
  std::vector<int64_t> snapshot_steps_before;  // by block: the state snapshot_step that the step finds
  int64_t first_task = -1;                     // the first block with one, of any rank; -1: none
  bool any_task() const { return first_task >= 0; }
  bool any_refresh = false;

  // Roots that the engine computes while steps go on. They may be used as long as each state followed from the one
  // before by a step, with the same settings; else they are computed again when they are due.
  std::vector<int64_t> ahead;      // by block, the step whose roots they are; 0: none
  const char* ahead_of = nullptr;  // the arena that they belong to
  bool uses_ahead = true;          // false once replays may move the state from one arena into another, unseen
  void ForgetAhead() { std::fill(ahead.begin(), ahead.end(), 0); }

  // The state is written by something other than a step.
  void StateChanges(bool counters_change) {
    if (counters_change || has_snapshots) counters_of = nullptr;
    ForgetAhead();
  }

  // The host may have written an arena by itself.
  void Forget() {
    forgets = true;
    ForgetAhead();
  }

  // With several ranks; nullptr: one.
  Communicator* comm = nullptr;
  int32_t number = 0;  // of this optimizer among those of the communicator
  Status own_failure;  // for which this rank's host has not made the step that was given
  Status lost;         // of a collective of the step that is given
};

}  // namespace shampoo

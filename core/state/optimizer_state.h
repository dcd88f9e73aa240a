// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/plan/plan.h"
#include "core/state/entries.h"
#include "core/state/hyper_parameters.h"
#include "core/state/state_memory.h"

namespace shampoo {

// Is notified of what happens to the state outside of steps.
class StateObserver {
 public:
  virtual ~StateObserver() = default;
  // Waits for steps that are under way and records their results.
  virtual Status FinishSteps() = 0;
  // The arena of the optimizer now holds the state before the first step.
  virtual void OnInitialize() = 0;
  // A part of the arena was written; step_counters: that of the groups' step counters.
  virtual void OnWrite(bool step_counters) = 0;
  // The whole state was replaced by another, such as that of a checkpoint.
  virtual void OnReplace() = 0;
  // The caller may have written an arena without a call of the library.
  virtual void OnUnseenWrite() = 0;
};

// The state of an optimizer on one rank: the arena with the groups' step counters and the blocks' states, and the
// hyper-parameters in force. Checkpoints need nothing else of an optimizer.
//
// A step reads the arena in() and writes the arena out(), which are the same unless the caller binds two.
class OptimizerState {
 public:
  // The plan must outlive this object.
  OptimizerState(const PlanData& plan, std::unique_ptr<StateMemory> memory, size_t scalar_alignment);

  void Observe(StateObserver* observer) { observer_ = observer; }
  const PlanData& plan() const { return plan_; }
  const StateMemory& memory() const { return *memory_; }
  HyperParameters& hyper_parameters() { return hyper_parameters_; }
  const HyperParameters& hyper_parameters() const { return hyper_parameters_; }

  // The arenas. Bind() with nullptr for both goes back to the arena of create.
  const char* in() const { return in_; }
  char* out() const { return out_; }
  Status Bind(const void* in, void* out);

  // Waits for steps under way, so that the state can be read and written.
  Status FinishSteps(void* stream);

  std::span<const StateEntry> entries() const { return entries_; }
  // A whole entry in host memory: its own place, or a copy in *copy.
  Status View(const StateEntry& entry, std::vector<char>* copy, const char** memory) const;
  // Calls edit(memory), which returns a Status, and stores what it changed there.
  template <typename Edit>
  Status Change(const StateEntry& entry, std::vector<char>* copy, Edit&& edit) {
    char* memory = nullptr;
    is_initial_ = false;
    SHAMPOO_RETURN_IF_ERROR(memory_->Map(out_ + entry.arena_offset, entry.span_bytes(), copy, &memory));
    SHAMPOO_RETURN_IF_ERROR(edit(memory));
    return Upload(entry.arena_offset, entry.span_bytes(), memory);
  }
  // Bytes of the arena out().
  Status Download(int64_t offset, int64_t bytes, char* to) const;
  Status Upload(int64_t offset, int64_t bytes, const char* from);

  // The number of steps that a group has made.
  Status ReadSteps(size_t group, int64_t* steps) const;
  Status WriteSteps(size_t group, int64_t steps);

  // Sets the state as before the first step.
  Status Initialize();
  Status InitializeFactors(const Block& block);
  // Whether Initialize() would change nothing.
  bool is_initial() const { return is_initial_; }

  // Fails if the arena holds no usable state.
  Status CheckUsable(const char* arena) const;
  // Makes every use of the arena out() fail with this text, until its state is replaced or written as a whole.
  void MarkLost(std::string why);
  // Call after the state has been replaced. Errors that earlier steps deferred are discarded.
  void MarkReplaced();
  // Call when a step begins to write to out().
  void MarkWritten() { is_initial_ = false; }
  // Call after a step has written the whole state to `out`, or copied it there.
  void MarkStepped(const char* in, const char* out);

 private:
  const PlanData& plan_;
  std::unique_ptr<StateMemory> memory_;
  HyperParameters hyper_parameters_;
  StateObserver* observer_ = nullptr;
  std::vector<StateEntry> entries_;
  const char* in_;
  char* out_;
  bool is_initial_ = false;
  std::string lost_;  // why lost_arena_ holds no usable state; empty: every arena does
  const char* lost_arena_ = nullptr;
};

}  // namespace shampoo

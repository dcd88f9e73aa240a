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

// Is notified of accesses to the state outside of steps: FinishSteps() is called before an access, and the other
// functions are called when the state changes.
class StateObserver {
 public:
  virtual ~StateObserver() = default;
  // Waits for pending steps and records their results.
  virtual Status FinishSteps() = 0;
  // The arena OptimizerState::out() was set to the initial state, which is the state before the first step.
  virtual void OnInitialize() = 0;
  // A range of the arena is about to be written. step_counters: whether the range includes the step counters of groups.
  virtual void OnWrite(bool step_counters) = 0;
  // The whole state was replaced, for example by the state in a checkpoint.
  virtual void OnReplace() = 0;
  // The caller may have written an arena without calling the library.
  virtual void OnUnseenWrite() = 0;
};

// The state of an optimizer on one rank: the arena, which holds the step counters of groups and the states of blocks,
// and the current hyper-parameters. A checkpoint contains nothing else of an optimizer.
//
// A step reads the arena in() and writes the arena out(). They are the same unless the caller binds two arenas.
class OptimizerState {
 public:
  // The plan must outlive this object. scalar_alignment: see HyperParameters.
  OptimizerState(const PlanData& plan, std::unique_ptr<StateMemory> memory, size_t scalar_alignment);

  void Observe(StateObserver* observer) { observer_ = observer; }
  const PlanData& plan() const { return plan_; }
  const StateMemory& memory() const { return *memory_; }
  HyperParameters& hyper_parameters() { return hyper_parameters_; }
  const HyperParameters& hyper_parameters() const { return hyper_parameters_; }

  // The arenas. Bind() with nullptr for both selects the arena with which the optimizer was created.
  const char* in() const { return in_; }
  char* out() const { return out_; }
  Status Bind(const void* in, void* out);

  // Waits for pending steps, so that the state can be read and written.
  Status FinishSteps(void* stream);

  std::span<const StateEntry> entries() const { return entries_; }
  // Sets *memory to the host address of a whole entry. The address is in the arena or, if the host cannot access the
  // arena, in *copy, which then receives a copy of the entry.
  Status View(const StateEntry& entry, std::vector<char>* copy, const char** memory) const;
  // Calls edit(memory), which may change the entry in host memory and returns a Status. Then stores the changed entry.
  template <typename Edit>
  Status Change(const StateEntry& entry, std::vector<char>* copy, Edit&& edit) {
    char* memory = nullptr;
    is_initial_ = false;
    SHAMPOO_RETURN_IF_ERROR(memory_->Map(out_ + entry.arena_offset, entry.span_bytes(), copy, &memory));
    SHAMPOO_RETURN_IF_ERROR(edit(memory));
    return Upload(entry.arena_offset, entry.span_bytes(), memory);
  }
  // Download() copies bytes from the arena out(). Upload() copies bytes to it.
  Status Download(int64_t offset, int64_t bytes, char* to) const;
  Status Upload(int64_t offset, int64_t bytes, const char* from);

  // Read and write the number of steps that a group has made.
  Status ReadSteps(size_t group, int64_t* steps) const;
  Status WriteSteps(size_t group, int64_t steps);

  // Initialize() sets the whole state to its values before the first step. InitializeFactors() does the same for those
  // states of one block that are not elementwise.
  Status Initialize();
  Status InitializeFactors(const Block& block);
  // Returns true only if Initialize() would change nothing.
  bool is_initial() const { return is_initial_; }

  // Fails if the arena holds no usable state.
  Status CheckUsable(const char* arena) const;
  // Makes CheckUsable() fail for the arena out(), with `reason` as the message. This lasts until MarkReplaced() is
  // called or a step writes the whole state to this arena.
  void MarkUnusable(std::string reason);
  // Call after the state has been replaced. Discards errors of earlier steps that the next step would return.
  void MarkReplaced();
  // Call when a step begins to write to out().
  void MarkWritten() { is_initial_ = false; }
  // Call after a step that read the arena `in` has written or copied the whole state to the arena `out`.
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
  std::string unusable_reason_;  // why unusable_arena_ holds no usable state; empty: all arenas are usable
  const char* unusable_arena_ = nullptr;
};

}  // namespace shampoo

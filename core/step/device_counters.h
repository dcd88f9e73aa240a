// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/backend/cuda/device_engine.h"
#include "core/plan/plan.h"

namespace shampoo {

// The host's copy of counters that are in an arena on a device: the step counter of each group and, for each block, the
// state snapshot_step (see RootTaskOf()) or gradient_count (how many gradients the block has had).
class DeviceCounters {
 public:
  explicit DeviceCounters(const PlanData& plan);

  // Returns whether a block of this rank has the state snapshot_step or gradient_count.
  bool has_block_counters() const { return has_block_counters_; }
  // Returns whether a block of any rank has the state gradient_count. Each gradient of the block increments this state.
  bool count_gradients() const { return count_gradients_; }
  std::vector<int64_t> steps;  // by group
  // By block: the state gradient_count (if the block has eigenbases) or snapshot_step (with root_async). The value is 0
  // for blocks of other ranks and for blocks without these states.
  std::vector<int64_t> block_counters;

  // Returns whether it is certain that this copy equals the values in the arena.
  bool AreKnown(const char* arena) const { return AreKnownUnlessReplayed(arena) && !may_be_replayed_; }
  // Does the same as AreKnown(), but assumes that no replay has changed the arena. A replay is a launch of a CUDA graph
  // into which a step was captured. The program launches the graph without calling the library.
  bool AreKnownUnlessReplayed(const char* arena) const { return arena_ == arena && !has_unseen_write_; }

  // Call when this copy has been set to the values in the arena.
  void SetKnown(const char* arena) { arena_ = arena; }
  // Sets this copy to the values in the arena, which are read in the order of the stream.
  Status Fetch(const cuda::DeviceEngine& engine, const char* arena, void* stream);
  // Sets block_counters to the values that `engine` has received from the device.
  void TakeBlockCounters(const cuda::DeviceEngine& engine);
  // Sets all counters to 0, as in the arena of an optimizer that has made no step.
  void SetInitial(const char* arena);
  void Forget() { arena_ = nullptr; }
  // Sets has_unseen_write(), which Fetch() clears. Call when the program may have written an arena without calling the
  // library.
  void MarkUnseenWrite() { has_unseen_write_ = true; }
  bool has_unseen_write() const { return has_unseen_write_; }
  bool may_be_replayed() const { return may_be_replayed_; }
  // Call after a step was captured. From then on, replays may change the values in the arena at any time.
  void MarkCaptured() { may_be_replayed_ = true; }

 private:
  const char* arena_ = nullptr;  // the arena whose values this copy has; nullptr: there is none
  bool may_be_replayed_ = false;
  bool has_unseen_write_ = false;
  bool has_block_counters_ = false;
  bool count_gradients_ = false;
};

}  // namespace shampoo

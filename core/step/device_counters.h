// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/backend/cuda/device_engine.h"
#include "core/plan/plan.h"

namespace shampoo {

// The host's copy of counters that are in an arena on a device: the step counters of groups, and the states
// snapshot_step and gradient_count of blocks.
class DeviceCounters {
 public:
  explicit DeviceCounters(const PlanData& plan);

  bool has_block_counters() const { return has_block_counters_; }
  // Returns whether the state gradient_count of some block may change in every step.
  bool count_gradients() const { return count_gradients_; }
  std::vector<int64_t> steps;  // by group
  // By block: the state snapshot_step (with root_async) or gradient_count (of a method in eigenbases). Set for this
  // rank's blocks, otherwise 0.
  std::vector<int64_t> block_counters;

  // Returns whether this copy equals the values in the arena.
  bool AreKnown(const char* arena) const { return AreKnownUnlessReplayed(arena) && !may_be_replayed_; }
  // Returns whether this copy equals the values in the arena if no replay has changed the arena. A replay makes a step
  // that was captured into a CUDA graph, and the host does not see it.
  bool AreKnownUnlessReplayed(const char* arena) const { return arena_ == arena && !has_unseen_write_; }

  void SetKnown(const char* arena) { arena_ = arena; }
  // Reads the values in the arena, in the order of the stream.
  Status Fetch(const cuda::DeviceEngine& engine, const char* arena, void* stream);
  // Copies the block counters from `engine`, which has their values after the finished steps.
  void TakeBlockCounters(const cuda::DeviceEngine& engine);
  // Sets the counters of an optimizer that has made no step.
  void SetInitial(const char* arena);
  void Forget() { arena_ = nullptr; }
  // Call when the caller may have written an arena without calling the library. Fetch() clears the mark.
  void MarkUnseenWrite() { has_unseen_write_ = true; }
  bool has_unseen_write() const { return has_unseen_write_; }
  bool may_be_replayed() const { return may_be_replayed_; }
  // Call after a step was captured. From then on, replays may change the values in the arena at any time.
  void MarkCaptured() { may_be_replayed_ = true; }

 private:
  const char* arena_ = nullptr;  // the arena with these values; nullptr: none
  bool may_be_replayed_ = false;
  bool has_unseen_write_ = false;
  bool has_block_counters_ = false;  // a block of this rank has such a state
  bool count_gradients_ = false;
};

}  // namespace shampoo

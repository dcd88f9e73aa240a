// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/backend/cpu/cpu_backend.h"
#include "core/rules/schedule.h"
#include "core/rules/step_program.h"
#include "core/step/participants.h"
#include "core/step/step_strategy.h"

namespace shampoo {

// The step of one group.
struct GroupStep {
  bool active = false;  // whether the step advances the step counter of the group
  StepProgram program;
  GroupSchedule schedule;

  // With method muon: settings and program for those blocks of the group that adam updates (Block::is_routed).
  Settings routed_settings;
  StepProgram routed;

  const StepProgram* ProgramOf(const Block& block) const { return block.is_routed ? &routed : &program; }
};

// The buffers of a block in a step.
struct BlockTarget {
  const Buffers* buffers;
  char* exchange;  // receives the update that other ranks read; nullptr: this rank writes the outputs directly
};

// Makes a step on the CPU: lists the blocks of the parameters that take part, computes the updates of these blocks, and
// writes the outputs of all other parameters. An excluded block is a block whose gradient is not usable. The
// constructor allocates all memory, so that a step allocates nothing.
//
// A step calls List() and, for blocks with unusable gradients, Exclude(). A skipped step then calls
// FinishSkipped(). Any other step calls Begin() or BeginWithExcluded(), then Compute() for each bucket, and at the end
// RecordRoots() and Finish() in any order. Nothing is written before Begin(), BeginWithExcluded() or FinishSkipped().
class StepContext {
 public:
  // targets: one for each block of the plan.
  StepContext(const StepInputs& inputs, CpuBackend* backend, std::vector<BlockTarget> targets);

  // The parameters that take part in the step. The caller chooses them before List().
  Participants& participants() { return participants_; }
  const Participants& participants() const { return participants_; }

  // Computes the programs of the active groups, and makes one item for each block of the parameters that take part. The
  // items of the most expensive blocks come first.
  Status List();
  // Activates a group and computes its program for this step. List() calls Activate() for groups in which parameters of
  // this rank take part, and for groups with count_empty_steps=true. Call Activate() for a group that is active only on
  // other ranks.
  void Activate(size_t group, int64_t step);

  const GroupStep& group(size_t index) const { return groups_[index]; }
  std::span<StepItem> items() { return items_; }
  StepItem& ItemOf(int64_t block) { return items_[item_of_block_[static_cast<size_t>(block)]]; }
  int64_t BlockOf(const StepItem& item) const { return item.block - inputs_.plan.blocks.data(); }
  // Returns the items of one bucket. If only_owned is true, returns only the items of blocks that this rank owns. The
  // result is valid until the next call.
  std::span<const StepItem> ItemsOfBucket(int64_t bucket, bool only_owned);
  // By block: 1 if this step has skipped the update of the block, otherwise 0.
  std::span<const char> update_skipped() const { return update_skipped_; }

  // Adds a block to the excluded blocks.
  void Exclude(const StepItem& item) { excluded_.push_back(item); }
  void ClearExcluded() { excluded_.clear(); }
  std::span<const StepItem> excluded() const { return excluded_; }

  // Begins to write states. Removes excluded blocks from the items. Finish() writes the outputs of the removed blocks.
  void Begin();
  // Does the same as Begin(), but keeps excluded blocks among the items, so that their owner reports a skipped update
  // to the other ranks.
  void BeginWithExcluded();
  // Computes the step for some of the items.
  void Compute(std::span<const StepItem> items);
  // Records the outcomes of the inverse roots. Call after Compute() for all buckets.
  void RecordRoots();
  // Completes a step: advances the step counters, writes the outputs of parameters that took no part and of the blocks
  // that Begin() removed, and records skipped updates. If logs_all is true, also logs the skipped updates of blocks
  // that other ranks own.
  void Finish(bool logs_all);
  // Completes a skipped step. Outputs are copies of parameters, or zeros if output=updates.
  void FinishSkipped();

 private:
  void BeginWriting();
  void CopyState();
  RootSchedule ScheduleOf(const Block& block) const;
  void PassThroughParams(bool step_is_skipped);
  void UpdateAverages(bool step_is_skipped);
  void RecordSkippedUpdates(bool logs_all);

  StepInputs inputs_;
  CpuBackend* backend_;
  std::vector<BlockTarget> targets_;
  Participants participants_;
  std::vector<GroupStep> groups_;
  std::vector<int64_t> blocks_by_cost_;
  std::vector<StepItem> items_;
  std::vector<size_t> item_of_block_;
  std::vector<StepItem> bucket_items_;
  std::vector<StepItem> excluded_;
  bool excluded_are_removed_ = false;  // whether the excluded blocks were removed from the items
  std::vector<char> is_excluded_;      // by block
  std::vector<char> refreshed_;        // by block: whether this step refreshed its roots
  std::vector<char> update_skipped_;   // by block
  std::vector<int64_t> averaged_;      // indices of this rank's blocks with Block::lr_sum or Block::ema_offset
  std::vector<char> is_updated_;       // by block: whether this step updated it
  std::vector<StepItem> aged_;         // the blocks whose average advances although this step did not update them
};

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/backend/cpu/cpu_backend.h"
#include "core/step/step_context.h"
#include "core/step/step_strategy.h"

namespace shampoo {

// Checks the arguments and the state of an export. weights: by parameter; nullptr: not wanted.
Status CheckExport(const StepInputs& inputs, std::span<void* const> weights);

// Writes the averages of the parameters to memory of the caller (shampoo_optimizer_export). The owner of a block adds a
// multiple of Block::average_offset() to the parameter or, with several ranks, sends that multiple as a step sends an
// update.
class WeightExport {
 public:
  // targets: the targets of a step, by block.
  WeightExport(const StepInputs& inputs, CpuBackend* backend, const std::vector<BlockTarget>& targets);

  Status Check(std::span<void* const> weights) const { return CheckExport(inputs_, weights); }
  // Prepares an export. weights: by parameter, in its out_dtype.
  void Begin(double blend, std::span<void* const> weights);
  // Computes the averages of the blocks of a bucket that this rank owns.
  void Compute(int64_t bucket);
  // Returns the items of all blocks of the bucket whose averages are wanted here, with the outputs of this rank.
  std::span<const StepItem> ItemsToApply(int64_t bucket);
  // By block: 0 when a bucket is sent, because an export skips no block. A rank that receives a difference that begins
  // with the mark of a skipped update sets 1, and copies the parameter. No arithmetic creates this mark, a NaN, but a
  // state that was loaded may contain it. On CUDA, the output is then NaN.
  std::span<const char> update_skipped() const { return update_skipped_; }
  // Completes an export: copies the parameters that have no average to the outputs.
  void Finish();
  // Whether the block has an average, and the weights of its parameter are wanted here.
  bool IsWanted(const Block& block) const {
    return HasAverage(block.group) && outputs_[static_cast<size_t>(block.param)].out != nullptr;
  }
  // Returns the item of a block that has an average, with the outputs of this rank.
  const StepItem& ItemOf(int64_t block) const { return items_[static_cast<size_t>(block)]; }

 private:
  bool HasAverage(int group) const;

  StepInputs inputs_;
  CpuBackend* backend_;
  std::vector<char*> exchange_;        // by block; nullptr: this rank writes the output itself
  std::vector<StepProgram> programs_;  // by group
  std::vector<Buffers> outputs_;       // by parameter
  std::vector<StepItem> items_;        // by block
  std::vector<StepItem> selected_;
  std::vector<char> update_skipped_;
};

}  // namespace shampoo

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

// Checks that the optimizer can export, and checks the addresses in `weights`. weights: for each parameter, the memory
// for its average, or nullptr to skip the parameter.
Status CheckExport(const StepInputs& inputs, std::span<void* const> weights);

// Writes the averages of the parameters to memory of the caller (shampoo_optimizer_export). An average is the sum of
// the parameter and a multiple of the state at Block::average_offset(). A single rank writes the sum. With several
// ranks, the owner of a block sends the multiple as a step sends an update, and each rank writes the sum.
class WeightExport {
 public:
  // targets: one for each block, the same as in a step.
  WeightExport(const StepInputs& inputs, CpuBackend* backend, const std::vector<BlockTarget>& targets);

  Status Check(std::span<void* const> weights) const { return CheckExport(inputs_, weights); }
  // Prepares an export. blend: see StepStrategy::Export(). weights: for each parameter, memory for its elements in
  // out_dtype, or nullptr to skip the parameter.
  void Begin(double blend, std::span<void* const> weights);
  // For each block of the bucket that this rank owns and that has an average: writes the average or, if ranks exchange
  // the block, the multiple that the rank sends.
  void Compute(int64_t bucket);
  // Returns the items of those blocks of the bucket for which IsWanted() is true. In their buffers, `out` points to the
  // memory that the caller of this rank passed to the export.
  std::span<const StepItem> ItemsToApply(int64_t bucket);
  // By block: 1 if the received data begins with the mark of a skipped update (bytes kSkippedMark, a NaN). Flags are
  // set when received data is applied, so the flags of a bucket are still 0 when this rank sends the bucket. An export
  // skips no block, and steps never store a NaN with these bytes, but a loaded state may contain one. The flag then
  // becomes 1, and the output is a copy of the parameter. On CUDA, the output is NaN instead.
  std::span<const char> update_skipped() const { return update_skipped_; }
  // Completes an export: if a parameter has no average, copies the parameter itself to the output.
  void Finish();
  // Returns whether the block has an average and the caller of this rank passed memory for the block's parameter.
  bool IsWanted(const Block& block) const {
    return HasAverage(block.group) && outputs_[static_cast<size_t>(block.param)].out != nullptr;
  }
  // Returns the item of a block that has an average, with buffers as in ItemsToApply().
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

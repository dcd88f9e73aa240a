// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/weight_export.h"

#include <algorithm>
#include <utility>

#include "core/base/memory_range.h"
#include "core/base/text.h"
#include "core/rules/averages.h"

namespace shampoo {

WeightExport::WeightExport(const StepInputs& inputs, CpuBackend* backend, const std::vector<BlockTarget>& targets)
    : inputs_(inputs), backend_(backend) {
  for (const BlockTarget& target : targets) exchange_.push_back(target.exchange);
  programs_.resize(inputs_.plan.groups.size());
  outputs_.resize(inputs_.plan.params.size());
  items_.reserve(targets.size());
  selected_.reserve(targets.size());
  update_skipped_.resize(targets.size());
}

bool WeightExport::HasAverage(int group) const {
  const Settings& settings = inputs_.plan.groups[static_cast<size_t>(group)];
  return settings.averaging != Averaging::kNone || settings.weight_ema != 0;
}

Status CheckExport(const StepInputs& inputs, std::span<void* const> weights) {
  SHAMPOO_RETURN_IF_ERROR(inputs.state.CheckUsable(inputs.state.out()));
  SHAMPOO_RETURN_IF_ERROR(inputs.buffers.CheckAllBound());
  for (size_t p = 0; p < weights.size(); ++p) {
    const Param& param = inputs.plan.params[p];
    if (weights[p] == nullptr || param.elements == 0) continue;
    const auto range = [&](const void* start, Dtype dtype) {
      return MemoryRange{start, param.elements * static_cast<int64_t>(SizeOf(dtype))};
    };
    if (range(weights[p], param.desc.out_dtype)
            .Overlaps(range(inputs.buffers.all()[p].param, param.desc.param_dtype))) {
      return Invalid(
          "weights[", p, "] overlaps the parameter \"", param.desc.name,
          "\": expected separate memory, because training continues from the parameter; for example, pass the "
          "memory of the gradient");
    }
    Status status = CheckAlignment("the memory", weights[p], param.desc.out_dtype);
    if (!status.ok()) return std::move(status).Within(Cat("weights[", p, "]"));
  }
  return {};
}

void WeightExport::Begin(double blend, std::span<void* const> weights) {
  for (size_t p = 0; p < outputs_.size(); ++p) {
    outputs_[p] = {inputs_.buffers.all()[p].param, nullptr, weights[p], nullptr};
  }
  for (size_t g = 0; g < programs_.size(); ++g) {
    programs_[g].settings = &inputs_.plan.groups[g];
    programs_[g].lr = -ExportFactor(inputs_.plan.groups[g], blend);
  }
  std::fill(update_skipped_.begin(), update_skipped_.end(), char{0});
  items_.clear();
  for (size_t i = 0; i < exchange_.size(); ++i) {
    const Block& block = inputs_.plan.blocks[i];
    items_.push_back({.param = &inputs_.plan.param(block),
                      .block = &block,
                      .buffers = &outputs_[static_cast<size_t>(block.param)],
                      .program = &programs_[static_cast<size_t>(block.group)],
                      .schedule = {},
                      .roots = nullptr,
                      .update_skipped = &update_skipped_[i],
                      .exchange = exchange_[i]});
  }
}

void WeightExport::Compute(int64_t bucket) {
  selected_.clear();
  for (const StepItem& item : items_) {
    const Block& block = *item.block;
    if (block.bucket != bucket || !inputs_.plan.Owns(block) || !HasAverage(block.group)) continue;
    if (item.exchange != nullptr || IsWanted(block)) selected_.push_back(item);
  }
  backend_->ExportAverages(selected_, inputs_.state.out());
}

std::span<const StepItem> WeightExport::ItemsToApply(int64_t bucket) {
  selected_.clear();
  for (const StepItem& item : items_) {
    if (item.block->bucket == bucket && IsWanted(*item.block)) selected_.push_back(item);
  }
  return selected_;
}

void WeightExport::Finish() {
  for (size_t p = 0; p < outputs_.size(); ++p) {
    const Param& param = inputs_.plan.params[p];
    if (HasAverage(param.desc.group) || param.elements == 0 || outputs_[p].out == nullptr) continue;
    backend_->PassThrough(param, nullptr, outputs_[p], Output::kParameters);
  }
}

}  // namespace shampoo

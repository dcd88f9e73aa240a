// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "core/base/log.h"
#include "core/base/text.h"
#include "core/optimizer/optimizer.h"

namespace shampoo {

// First everything that can refuse, then everything that writes.
Status Optimizer::Step() {
  SHAMPOO_RETURN_IF_ERROR(CheckBound());
  SHAMPOO_RETURN_IF_ERROR(CheckScalars());
  ListItems();
  SHAMPOO_RETURN_IF_ERROR(CheckFactors());
  SHAMPOO_RETURN_IF_ERROR(CheckGradients());

  TakeScalars();
  CopyState();
  AdvanceGroups();
  backend_->Step(items_, state_out_);
  CompleteSkipped();
  ++steps_;
  ReportRoots();
  return {};
}

bool Optimizer::HasGradient(const Param& param) const {
  const auto p = static_cast<size_t>(&param - plan_->params.data());
  return param.block_count > 0 && buffers_[p].grad != nullptr;
}

Status Optimizer::CheckBound() const {
  for (size_t p = 0; p < bound_.size(); ++p) {
    if (bound_[p] || plan_->params[p].block_count == 0) continue;
    return WrongState("parameter \"", plan_->params[p].desc.name, "\" (index ", p,
                      ") has no buffers: call "
                      "shampoo_optimizer_bind for every parameter before the first step (grad NULL: no gradient)");
  }
  return {};
}

void Optimizer::CopyState() {
  if (state_in_ == state_out_) return;
  const int64_t bytes = plan_->state_bytes_of_rank[static_cast<size_t>(plan_->placement.replica_rank)];
  std::memcpy(state_out_, state_in_, static_cast<size_t>(bytes));
}

// A group in which no parameter has a gradient is skipped whole: its counter stays.
void Optimizer::AdvanceGroups() {
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].active) step_counters()[g] = groups_[g].program.t;
  }
}

// Everything is done when this is called: a text for which there is no memory is left out.
void Optimizer::ReportRoots() {
  for (const Block& block : plan_->blocks) {
    const Param& param = plan_->params[static_cast<size_t>(block.param)];
    if (!HasGradient(param) || !groups_[static_cast<size_t>(block.group)].program.refresh_roots) continue;
    const auto first = static_cast<size_t>(&block - plan_->blocks.data()) * kMaxDims;
    for (int k = 0; k < block.order(); ++k) {
      const RootOutcome& outcome = root_outcomes_[first + static_cast<size_t>(k)];
      ++(outcome.ok() ? roots_computed_ : roots_reused_);
      if (outcome.ok()) continue;
      LogText(LogLevel::kWarning, [&] {
        return Cat("the inverse root of ", BlockName(param, block), "/factor.", k,
                   " could not be computed: ", FailureText(outcome.failure),
                   "; the block goes on with its previous inverse");
      });
    }
  }
}

// Outputs are whole after every step: those of parameters that took no part hold the parameter as it was.
void Optimizer::CompleteSkipped() const {
  for (size_t p = 0; p < buffers_.size(); ++p) {
    const Param& param = plan_->params[p];
    if (HasGradient(param) || param.block_count == 0 || buffers_[p].param == nullptr) continue;
    backend_->PassThrough(param, buffers_[p], groups_[static_cast<size_t>(param.desc.group)].settings.output);
  }
}

Status Optimizer::Stat(std::string_view name, double* value) const {
  if (name == "steps") {
    *value = static_cast<double>(steps_);
  } else if (name == "root_computed") {
    *value = static_cast<double>(roots_computed_);
  } else if (name == "root_reused") {
    *value = static_cast<double>(roots_reused_);
  } else {
    return Invalid("there is no statistic \"", name, "\": expected steps, root_computed or root_reused");
  }
  return {};
}

Status Optimizer::EntryAt(int64_t index, const StateEntry** entry) const {
  const auto count = static_cast<int64_t>(entries_.size());
  if (index < 0 || index >= count) return Invalid("index is ", index, ": expected 0 to ", count - 1);
  *entry = &entries_[static_cast<size_t>(index)];
  return {};
}

}  // namespace shampoo

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
  if (!root_error_.empty()) return Numeric(std::exchange(root_error_, {}));
  SHAMPOO_RETURN_IF_ERROR(CheckGradients());

  TakeScalars();
  CopyState();
  AdvanceGroups();
  StepBlocks();
  CompleteSkipped();
  ++steps_;
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
  for (Group& group : groups_) group.active = false;
  for (const Param& param : plan_->params) {
    if (HasGradient(param)) groups_[static_cast<size_t>(param.desc.group)].active = true;
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].active) groups_[g].program = MakeProgram(groups_[g].settings, ++step_counters()[g]);
  }
}

void Optimizer::StepBlocks() {
  items_.clear();
  for (const int64_t i : blocks_by_cost_) {
    const Block& block = plan_->blocks[static_cast<size_t>(i)];
    const Param& param = plan_->params[static_cast<size_t>(block.param)];
    if (!HasGradient(param)) continue;
    items_.push_back({&param, &block, &buffers_[static_cast<size_t>(block.param)],
                      &groups_[static_cast<size_t>(block.group)].program});
  }
  StepReport report;
  backend_->Step(items_, state_out_, &report);
  ReportRoots(report);
}

void Optimizer::ReportRoots(const StepReport& report) {
  roots_computed_ += report.roots_computed;
  roots_reused_ += static_cast<int64_t>(report.incidents.size()) + report.incidents_dropped;
  for (const RootIncident& incident : report.incidents) {
    const Param& param = plan_->params[static_cast<size_t>(incident.block->param)];
    const std::string text = Cat("the inverse root of ", BlockName(param, *incident.block), "/factor.", incident.dim,
                                 " could not be computed: ", FailureText(incident.outcome.failure));
    Log(LogLevel::kWarning, Cat(text, "; the block goes on with its previous inverse"));
    const RootFailure failure = incident.outcome.failure;
    const bool spoiled = failure == RootFailure::kNanInput || failure == RootFailure::kInfInput;
    if (spoiled && root_error_.empty()) {
      root_error_ = Cat(text,
                        ". This was met in the step before this one, which is done; this step has changed nothing. "
                        "Load an earlier state, and lower the learning rate or clip gradients; a wider factor_dtype "
                        "helps where f16 overflows");
    }
  }
  if (report.incidents_dropped > 0) {
    Log(LogLevel::kWarning, Cat(report.incidents_dropped, " more inverse roots could not be computed"));
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

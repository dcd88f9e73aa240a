// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "core/base/log.h"
#include "core/base/text.h"
#include "core/optimizer/optimizer.h"

namespace shampoo {
namespace {

constexpr std::pair<const char*, StepPart> kSecondsOf[] = {{"seconds.check", StepPart::kCheck},
                                                           {"seconds.factor_update", StepPart::kFactorUpdate},
                                                           {"seconds.roots", StepPart::kRoots},
                                                           {"seconds.preconditioning", StepPart::kPreconditioning},
                                                           {"seconds.elementwise", StepPart::kElementwise}};

}  // namespace

// First everything that can refuse, then everything that writes.
Status Optimizer::Step() {
  SHAMPOO_RETURN_IF_ERROR(CheckBound());
  SHAMPOO_RETURN_IF_ERROR(CheckScalars());
  SHAMPOO_RETURN_IF_ERROR(RaiseStanding());
  SHAMPOO_RETURN_IF_ERROR(roots_.RaiseOverdue());
  SHAMPOO_RETURN_IF_ERROR(ListItems());
  SHAMPOO_RETURN_IF_ERROR(CheckFactors());
  bool skip_step = false;
  SHAMPOO_RETURN_IF_ERROR(CheckGradients(&skip_step));

  nonfinite_blocks_ += static_cast<int64_t>(bad_items_.size());
  CopyState();
  if (skip_step) {
    CompleteSkippedStep();
    return {};
  }
  TakeScalars();
  AdvanceGroups();
  if (!bad_items_.empty()) SkipBadItems();
  std::fill(refreshed_.begin(), refreshed_.end(), char{0});
  std::fill(stood_still_.begin(), stood_still_.end(), char{0});
  for (const StepItem& item : items_) refreshed_[BlockIndex(item)] = static_cast<char>(item.schedule.refresh);
  backend_->Step(items_, state_out_);
  CompleteSkipped();
  ++steps_;
  EnterStanding();
  EnterRoots();
  return {};
}

// Blocks with a gradient that cannot be used stay as they are.
void Optimizer::SkipBadItems() {
  for (const StepItem* item : bad_items_) {
    backend_->PassThrough(*item->param, item->block, *item->buffers, item->program->output);
  }
  std::fill(is_bad_.begin(), is_bad_.end(), char{0});
  for (const StepItem* item : bad_items_) is_bad_[BlockIndex(*item)] = 1;
  std::erase_if(items_, [this](const StepItem& item) { return is_bad_[BlockIndex(item)] != 0; });
}

// The direction of a block is known only when its states are written: a block whose direction is not finite is left
// where it is, told, and raised by the next step unless the group wants such things skipped.
void Optimizer::EnterStanding() {
  for (const StepItem& item : items_) {
    const size_t at = BlockIndex(item);
    if (stood_still_[at] == 0) continue;
    ++nonfinite_blocks_;
    const OnNonFinite choice = groups_[static_cast<size_t>(item.block->group)].settings.on_nonfinite;
    if (choice == OnNonFinite::kError && standing_block_ < 0) standing_block_ = static_cast<int64_t>(at);
    LogText(LogLevel::kWarning, [&] {
      return Cat("the direction of block ", BlockName(*item.param, *item.block),
                 " is not finite, or would overflow a dtype: the block is left where it is");
    });
  }
}

Status Optimizer::RaiseStanding() {
  if (standing_block_ < 0) return {};
  const Block& block = plan_->blocks[static_cast<size_t>(std::exchange(standing_block_, -1))];
  return Numeric(
      "the direction of block ", BlockName(plan_->params[static_cast<size_t>(block.param)], block),
      " was not finite, or would have overflowed its parameter or momentum, in the step before this one, which "
      "left the block where it was; this step has changed nothing, and the caller may go on. Try a larger "
      "epsilon, a lower learning rate, wider dtypes, or on_nonfinite skip_block");
}

// What was skipped counts, and the outputs are whole.
void Optimizer::CompleteSkippedStep() {
  ++skipped_steps_;
  for (size_t p = 0; p < buffers_.size(); ++p) {
    const Param& param = plan_->params[p];
    if (param.block_count == 0 || buffers_[p].param == nullptr) continue;
    const Output output = groups_[static_cast<size_t>(param.desc.group)].settings.output;
    backend_->PassThrough(param, nullptr, buffers_[p], output);
  }
}

size_t Optimizer::BlockIndex(const StepItem& item) const {
  return static_cast<size_t>(item.block - plan_->blocks.data());
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

void Optimizer::EnterRoots() {
  bool refreshed = false;
  bool tracked = false;
  // In the order of the plan: items are in that of their cost.
  for (const Block& block : plan_->blocks) {
    const Group& group = groups_[static_cast<size_t>(block.group)];
    if (refreshed_[static_cast<size_t>(&block - plan_->blocks.data())] == 0) continue;
    roots_.Enter(*plan_, block, group.settings);
    refreshed = true;
    tracked = tracked || group.settings.track_root_residuals;
  }
  if (refreshed) roots_.EndRefresh(tracked);
}

// Outputs are whole after every step: those of parameters that took no part hold the parameter as it was.
void Optimizer::CompleteSkipped() const {
  for (size_t p = 0; p < buffers_.size(); ++p) {
    const Param& param = plan_->params[p];
    if (HasGradient(param) || param.block_count == 0 || buffers_[p].param == nullptr) continue;
    backend_->PassThrough(param, nullptr, buffers_[p], groups_[static_cast<size_t>(param.desc.group)].settings.output);
  }
}

Status Optimizer::Stat(std::string_view name, double* value) const {
  for (const auto& [part_name, part] : kSecondsOf) {
    if (name != part_name) continue;
    *value = backend_->Seconds(part);
    return {};
  }
  if (name == "steps") {
    *value = static_cast<double>(steps_);
  } else if (name == "nonfinite_blocks") {
    *value = static_cast<double>(nonfinite_blocks_);
  } else if (name == "skipped_steps") {
    *value = static_cast<double>(skipped_steps_);
  } else if (!roots_.Stat(name, value)) {
    std::string parts;
    for (const auto& [part_name, part] : kSecondsOf) parts += Cat(part_name, ", ");
    return Invalid("there is no statistic \"", name, "\": expected steps, nonfinite_blocks, skipped_steps, ", parts,
                   RootLedger::StatNames());
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

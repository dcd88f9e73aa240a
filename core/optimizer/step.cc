// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/caught.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/optimizer/on_device.h"
#include "core/optimizer/optimizer.h"
#include "core/optimizer/refusals.h"

namespace shampoo {

// First everything that can refuse, then everything that writes.
Status Optimizer::Step(Status given, void* stream) {
  if (device_) return StepOnDevice(std::move(given), stream);
  SHAMPOO_RETURN_IF_ERROR(TellOfLoss());
  bool skip_step = false;
  failure_is_echo_ = false;
  doubts_ = false;
  Status checked = given.ok() ? Caught([&] { return CheckStep(&skip_step); }) : std::move(given);
  if (shards_) checked = CheckWithShards(checked, &skip_step);
  if (gathering_) {
    checked = InspectTogether(std::move(checked), &skip_step);
    return StepGathered(std::move(checked), skip_step);
  }
  if (exchange_) return StepTogether(checked, skip_step);

  SHAMPOO_RETURN_IF_ERROR(std::move(checked));
  if (skip_step) return FinishStep(false);
  BeginStep();
  for (const StepItem& item : items_) refreshed_[BlockIndex(item)] = static_cast<char>(item.schedule.refreshes());
  backend_->Step(items_, state_out_);
  SHAMPOO_RETURN_IF_ERROR(FinishStep(true));
  EnterRoots();
  return {};
}

// After a collective has failed every step fails, and the first of them tells the ranks that do not know.
Status Optimizer::TellOfLoss() {
  const Communicator* lost = nullptr;
  if (shards_ && shards_->comm()->failed()) lost = shards_->comm();
  if (exchange_ && exchange_->comm()->failed()) lost = exchange_->comm();
  if (lost == nullptr) return {};
  const Status failure = lost->FailedBefore();
  if (shards_) shards_->Tell(failure);
  if (exchange_) exchange_->Tell(0, failure);
  return lost->FailedBefore();
}

Status Optimizer::CheckStep(bool* skip_step) {
  SHAMPOO_RETURN_IF_ERROR(CheckState(state_in_));
  SHAMPOO_RETURN_IF_ERROR(CheckBound());
  SHAMPOO_RETURN_IF_ERROR(CheckScalars());
  SHAMPOO_RETURN_IF_ERROR(RaiseStanding());
  SHAMPOO_RETURN_IF_ERROR(RaiseOverdueRoots());
  if (gathering_) AssumeGradients();
  SHAMPOO_RETURN_IF_ERROR(ListItems());
  SHAMPOO_RETURN_IF_ERROR(CheckFactors());
  if (!gathering_) return CheckGradients(skip_step);
  doubts_ = DoubtsGradients();
  return {};
}

// With the ranks that hold the other shards: the same verdict on all, and steps counted alike.
Status Optimizer::CheckWithShards(const Status& checked, bool* skip_step) {
  for (size_t p = 0; p < plan_->params.size(); ++p) {
    const Param& param = plan_->params[p];
    shard_gradients_[p] = param.elements == 0           ? ShardStatus::kNothing
                          : !HasGradient(param)         ? ShardStatus::kMissing
                          : buffers_[p].copy == nullptr ? ShardStatus::kGiven
                                                        : ShardStatus::kGivenWithCopy;
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    shard_steps_[g] = checked.ok() && groups_[g].active ? groups_[g].program.t : 0;
  }
  ShardStatus::Flags flags{.echo = failure_is_echo_, .skip = *skip_step, .doubt = doubts_};
  const bool text_later = gathering_ != nullptr;
  Status verdict = shards_->Agree(checked, HashOfScalars(), &flags, shard_steps_, shard_gradients_, text_later);
  failure_is_echo_ = flags.echo;
  *skip_step = flags.skip;
  doubts_ = flags.doubt;
  SHAMPOO_RETURN_IF_ERROR(std::move(verdict));
  if (gathering_) {
    TakeAgreedGradients();
    return ListItems();
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (shard_steps_[g] != 0 && !groups_[g].active) PrepareProgram(&groups_[g], shard_steps_[g]);
  }
  return {};
}

void Optimizer::BeginStep() {
  is_initial_ = false;
  CopyState();
  if (state_in_ != state_out_ && state_out_ == lost_state_) lost_.clear();  // all of it is new
  TakeScalars();
  if (gathering_) {
    for (const StepItem& item : bad_items_) items_[item_of_block_[BlockIndex(item)]].skip_update = true;
  } else {
    RemoveBadItems();
  }
  std::fill(refreshed_.begin(), refreshed_.end(), char{0});
  std::fill(update_skipped_.begin(), update_skipped_.end(), char{0});
}

void Optimizer::RemoveBadItems() {
  if (bad_items_.empty()) return;
  std::fill(is_bad_.begin(), is_bad_.end(), char{0});
  for (const StepItem& item : bad_items_) is_bad_[BlockIndex(item)] = 1;
  std::erase_if(items_, [this](const StepItem& item) { return is_bad_[BlockIndex(item)] != 0; });
}

// Blocks with a gradient that cannot be used stay as they are.
void Optimizer::PassBadItems() {
  for (const StepItem& item : bad_items_) {
    backend_->PassThrough(*item.param, item.block, *item.buffers, item.program->output);
  }
}

// The direction of a block is known only when its states are written: a block whose direction is not finite is left
// where it is, told, and raised by the next step unless the group wants such things skipped.
void Optimizer::EnterStanding() {
  for (const StepItem& item : items_) {
    const size_t at = BlockIndex(item);
    if (update_skipped_[at] == 0) continue;
    ++nonfinite_blocks_;
    const OnNonFinite choice = groups_[static_cast<size_t>(item.block->group)].settings.on_nonfinite;
    const bool is_first = standing_block_ < 0 || static_cast<int64_t>(at) < standing_block_;  // in the plan
    if (choice == OnNonFinite::kError && is_first) standing_block_ = static_cast<int64_t>(at);
    if (gathering_ && !Owns(*item.block)) continue;  // its owner tells why
    if (item.skip_update) continue;                  // and has done so
    LogText(LogLevel::kWarning, [&] { return StandingText(*item.param, *item.block); });
  }
}

Status Optimizer::RaiseStanding() {
  if (standing_block_ < 0) return {};
  const Block& block = plan_->blocks[static_cast<size_t>(std::exchange(standing_block_, -1))];
  return Numeric(
      "the direction of block ", BlockName(plan_->params[static_cast<size_t>(block.param)], block),
      " was not finite, or would have overflowed its parameter or states, in the step before this one, which "
      "left the block where it was; this step has changed nothing, and the caller may go on. Try a larger ",
      groups_[static_cast<size_t>(block.group)].settings.EpsilonKey(),
      ", a lower learning rate, wider dtypes, or on_nonfinite skip_block");
}

// Of this rank's, or what another owner has said in the exchange of the step before: raised once, on all ranks.
Status Optimizer::RaiseOverdueRoots() {
  const int64_t elsewhere = std::exchange(overdue_elsewhere_, -1);
  SHAMPOO_RETURN_IF_ERROR(roots_.RaiseOverdue());
  if (elsewhere < 0) return {};
  failure_is_echo_ = true;
  return Numeric("the inverse root of ", roots_.NameOf(elsewhere),
                 " could not be computed at more refreshes in a row than root_failure_tolerance allows");
}

// What was skipped counts, and the outputs are whole.
void Optimizer::CompleteSkippedStep() {
  ++skipped_steps_;
  for (size_t p = 0; p < buffers_.size(); ++p) {
    const Param& param = plan_->params[p];
    if (param.elements == 0 || buffers_[p].param == nullptr) continue;
    const Output output = groups_[static_cast<size_t>(param.desc.group)].settings.output;
    backend_->PassThrough(param, nullptr, buffers_[p], output);
  }
}

size_t Optimizer::BlockIndex(const StepItem& item) const {
  return static_cast<size_t>(item.block - plan_->blocks.data());
}

bool Optimizer::HasGradient(const Param& param) const {
  const auto p = static_cast<size_t>(&param - plan_->params.data());
  return param.elements > 0 && buffers_[p].grad != nullptr;
}

bool Optimizer::TakesPart(const Param& param) const {
  if (!gathering_) return HasGradient(param);
  return takes_part_[static_cast<size_t>(&param - plan_->params.data())] != 0;
}

void Optimizer::StateIsReplaced() {
  if (device_) {
    device_->counters_of = nullptr;
    device_->raised = device_->report.refusals;
  }
  is_initial_ = false;
  lost_.clear();
  standing_block_ = -1;
  overdue_elsewhere_ = -1;
  roots_.ForgetFailures();
}

Status Optimizer::CheckState(const char* arena) const {
  return lost_.empty() || arena != lost_state_ ? Status() : WrongState(lost_);
}

Status Optimizer::CheckBound() const {
  for (size_t p = 0; p < bound_.size(); ++p) {
    if (bound_[p] || plan_->params[p].elements == 0) continue;
    return WrongState("parameter \"", plan_->params[p].desc.name, "\" (index ", p,
                      ") has no buffers: call "
                      "shampoo_optimizer_bind for every parameter before the first step (grad NULL: no gradient)");
  }
  return {};
}

void Optimizer::CopyState() {
  if (state_in_ == state_out_) return;
  std::memcpy(state_out_, state_in_, static_cast<size_t>(plan_->state_bytes()));
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
    if (refreshed_[static_cast<size_t>(&block - plan_->blocks.data())] == 0) continue;
    const Group& group = groups_[static_cast<size_t>(block.group)];
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
    if (TakesPart(param) || param.elements == 0 || buffers_[p].param == nullptr) continue;
    backend_->PassThrough(param, nullptr, buffers_[p], groups_[static_cast<size_t>(param.desc.group)].settings.output);
  }
}

Status Optimizer::EntryAt(int64_t index, const StateEntry** entry) const {
  const auto count = static_cast<int64_t>(entries_.size());
  if (index < 0 || index >= count) return Invalid("index is ", index, ": expected 0 to ", count - 1);
  *entry = &entries_[static_cast<size_t>(index)];
  return {};
}

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/step_context.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/base/log.h"
#include "core/plan/cost.h"
#include "core/rules/averages.h"
#include "core/rules/basis.h"
#include "core/step/rejections.h"

namespace shampoo {
namespace {

// Returns how many gradients a block of method soap or kl_shampoo has had so far. This rank must own the block.
int64_t GradientsOf(const OptimizerState& state, const Block& block) {
  return *reinterpret_cast<const int64_t*>(state.in() + block.gradient_count.offset);
}

}  // namespace

StepContext::StepContext(const StepInputs& inputs, CpuBackend* backend, std::vector<BlockTarget> targets)
    : inputs_(inputs), backend_(backend), targets_(std::move(targets)), participants_(inputs.plan) {
  const std::vector<Block>& blocks = inputs_.plan.blocks;
  for (const Settings& settings : inputs_.plan.groups) groups_.emplace_back().routed_settings = settings;
  for (size_t g = 0; g < groups_.size(); ++g) {
    GroupStep& group = groups_[g];
    group.program.settings = &inputs_.plan.groups[g];
    group.routed.settings = &group.routed_settings;
    group.program.rounding_seed = group.routed.rounding_seed =
        static_cast<uint64_t>(inputs_.plan.groups[0].rounding_seed);
  }
  blocks_by_cost_.resize(blocks.size());
  std::iota(blocks_by_cost_.begin(), blocks_by_cost_.end(), 0);
  // Small blocks stay in plan order, which is their order in memory. If there are very many small blocks, another order
  // would slow down a step because of cache misses.
  const auto cost = [&](int64_t i) { return std::max(StepCost(blocks[static_cast<size_t>(i)]), kCostOfSmallBlock); };
  std::stable_sort(blocks_by_cost_.begin(), blocks_by_cost_.end(),
                   [&](int64_t a, int64_t b) { return cost(a) > cost(b); });
  items_.reserve(blocks.size());
  item_of_block_.resize(blocks.size());
  bucket_items_.reserve(blocks.size());
  excluded_.reserve(blocks.size());
  is_excluded_.resize(blocks.size());
  refreshed_.resize(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    const bool has_average = blocks[i].lr_sum.present() || blocks[i].ema_offset.present();
    if (has_average && inputs_.plan.Owns(blocks[i])) averaged_.push_back(static_cast<int64_t>(i));
  }
  aged_.reserve(averaged_.size());
  is_updated_.resize(averaged_.empty() ? 0 : blocks.size());
  update_skipped_.resize(blocks.size());
}

Status StepContext::List() {
  for (GroupStep& group : groups_) group.active = false;
  for (const Param& param : inputs_.plan.params) {
    if (participants_.Contains(param)) groups_[static_cast<size_t>(param.desc.group)].active = true;
  }
  const auto* const counters = reinterpret_cast<const int64_t*>(inputs_.state.in());
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g].active && !inputs_.plan.groups[g].count_empty_steps) continue;
    if (!IsStepCounter(counters[g])) return RejectCounter(g, counters[g]);
    Activate(g, counters[g] + 1);
  }
  items_.clear();
  const bool exchange_params = inputs_.plan.groups[0].communicate == Communicate::kParams;
  for (const int64_t i : blocks_by_cost_) {
    const auto at = static_cast<size_t>(i);
    const Block& block = inputs_.plan.blocks[at];
    const Param& param = inputs_.plan.param(block);
    if (!participants_.Contains(param)) continue;
    if (block.gradient_count.present() && inputs_.plan.Owns(block) && !IsStepCounter(GradientsOf(inputs_.state, block)))
      return RejectGradientCount(param, block, GradientsOf(inputs_.state, block));
    item_of_block_[at] = items_.size();
    items_.push_back({.param = &param,
                      .block = &block,
                      .buffers = targets_[at].buffers,
                      .program = groups_[static_cast<size_t>(block.group)].ProgramOf(block),
                      .schedule = ScheduleOf(block),
                      .roots = inputs_.history.roots().ReportsOf(i),
                      .first_root = inputs_.history.roots().FirstFactorOf(i),
                      .update_skipped = &update_skipped_[at],
                      .exchange = targets_[at].exchange,
                      .exchange_params = exchange_params});
  }
  return {};
}

void StepContext::Activate(size_t group, int64_t step) {
  const HyperParameters& hyper_parameters = inputs_.state.hyper_parameters();
  const Settings& settings = hyper_parameters.settings(group);
  GroupStep& made = groups_[group];
  made.active = true;
  const GroupSettings in_force = hyper_parameters.InForce(group);
  const auto seed = static_cast<uint64_t>(inputs_.plan.groups[0].rounding_seed);
  made.program = MakeProgram(settings, in_force, step, seed);
  made.schedule = GroupScheduleOf(settings, step);
  if (settings.method != Method::kMuon) return;
  static_cast<GroupSettings&>(made.routed_settings) = RoutedSettings(in_force);
  made.routed = MakeProgram(made.routed_settings, made.routed_settings, step, seed);
}

RootSchedule StepContext::ScheduleOf(const Block& block) const {
  const GroupStep& step = groups_[static_cast<size_t>(block.group)];
  if (block.is_routed) return {RootTask::kNone, DirectionRule::kGraft};
  const bool is_owned = inputs_.plan.Owns(block);
  const auto counter = [&](const StateSlot& slot) {
    return is_owned && slot.present() ? *reinterpret_cast<const int64_t*>(inputs_.state.in() + slot.offset) : 0;
  };
  return shampoo::ScheduleOf(*step.program.settings, step.schedule,
                             {.is_owned = is_owned,
                              .is_rotated = block.is_rotated(),
                              .is_preconditioned = block.is_preconditioned,
                              .phase = block.phase,
                              .gradient_count = counter(block.gradient_count),
                              .snapshot_step = counter(block.snapshot_step)});
}

std::span<const StepItem> StepContext::ItemsOfBucket(int64_t bucket, bool only_owned) {
  bucket_items_.clear();
  for (const StepItem& item : items_) {
    if (item.block->bucket != bucket || (only_owned && !inputs_.plan.Owns(*item.block))) continue;
    bucket_items_.push_back(item);
  }
  return bucket_items_;
}

void StepContext::Begin() {
  BeginWriting();
  excluded_are_removed_ = true;
  if (excluded_.empty()) return;
  std::fill(is_excluded_.begin(), is_excluded_.end(), char{0});
  for (const StepItem& item : excluded_) is_excluded_[static_cast<size_t>(BlockOf(item))] = 1;
  std::erase_if(items_, [this](const StepItem& item) { return is_excluded_[static_cast<size_t>(BlockOf(item))] != 0; });
}

void StepContext::BeginWithExcluded() {
  BeginWriting();
  excluded_are_removed_ = false;
  for (const StepItem& item : excluded_) ItemOf(BlockOf(item)).skip_update = true;
}

void StepContext::BeginWriting() {
  inputs_.state.MarkWritten();
  CopyState();
  inputs_.state.hyper_parameters().StoreBoundScalars();
  std::fill(refreshed_.begin(), refreshed_.end(), char{0});
  std::fill(update_skipped_.begin(), update_skipped_.end(), char{0});
}

void StepContext::CopyState() {
  const char* const in = inputs_.state.in();
  char* const out = inputs_.state.out();
  if (in == out) return;
  std::memcpy(out, in, static_cast<size_t>(inputs_.plan.state_bytes()));
  inputs_.state.MarkStepped(in, out);
}

void StepContext::Compute(std::span<const StepItem> items) {
  for (const StepItem& item : items) {
    const bool refreshes = item.schedule.refreshes() && !item.skip_update;
    refreshed_[static_cast<size_t>(BlockOf(item))] = static_cast<char>(refreshes);
    for (int k = 0; refreshes && k < item.block->factor_count(); ++k) item.roots[k].is_stale = false;
  }
  backend_->Step(items, inputs_.state.out());
}

void StepContext::RecordRoots() {
  RootLedger& roots = inputs_.history.roots();
  bool refreshed = false;
  bool tracked = false;
  // Roots are recorded in plan order, although the items are ordered by cost.
  for (const Block& block : inputs_.plan.blocks) {
    if (refreshed_[static_cast<size_t>(&block - inputs_.plan.blocks.data())] == 0) continue;
    const Settings& settings = inputs_.state.hyper_parameters().settings(static_cast<size_t>(block.group));
    roots.Record(inputs_.plan, block, settings);
    refreshed = true;
    tracked = tracked || settings.track_root_residuals;
  }
  if (refreshed) roots.FinishRefresh(tracked);
}

void StepContext::Finish(bool logs_all) {
  StepHistory::Counts& counts = inputs_.history.counts();
  // A group in which no parameter takes part does not count the step, unless count_empty_steps is set.
  auto* const counters = reinterpret_cast<int64_t*>(inputs_.state.out());
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].active) counters[g] = groups_[g].program.t;
  }
  if (excluded_are_removed_) {
    counts.nonfinite_blocks += static_cast<int64_t>(excluded_.size());
    for (const StepItem& item : excluded_) {
      backend_->PassThrough(*item.param, item.block, *item.buffers, item.program->output);
    }
  }
  PassThroughParams(false);
  UpdateAverages(false);
  ++counts.steps;
  RecordSkippedUpdates(logs_all);
}

// Writes the outputs of the parameters that took no part, or of all parameters if the step is skipped, so that outputs
// are complete after every step. Each output is a copy of the parameter or, with output=updates, zeros.
void StepContext::PassThroughParams(bool step_is_skipped) {
  for (size_t p = 0; p < inputs_.plan.params.size(); ++p) {
    const Param& param = inputs_.plan.params[p];
    const Buffers& buffers = inputs_.buffers.all()[p];
    const bool is_stepped = participants_.Contains(param) && !step_is_skipped;
    if (is_stepped || param.elements == 0 || buffers.param == nullptr) continue;
    backend_->PassThrough(param, nullptr, buffers, inputs_.plan.group(param).output);
  }
}

// Changes states of the blocks that this rank owns. Unless the step is skipped, adds the weight of this step's iterate
// to the state `lr_sum` of each block in the active groups, even of blocks without a gradient. In each step, even a
// skipped one, advances the weight_ema averages of the blocks that this step does not update.
void StepContext::UpdateAverages(bool step_is_skipped) {
  if (averaged_.empty()) return;
  std::fill(is_updated_.begin(), is_updated_.end(), char{0});
  for (const StepItem& item : items_) {
    const auto at = static_cast<size_t>(BlockOf(item));
    is_updated_[at] = static_cast<char>(!step_is_skipped && update_skipped_[at] == 0);
  }
  const auto* const counters = reinterpret_cast<const int64_t*>(inputs_.state.out());
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].program.t = groups_[g].routed.t = counters[g];
  aged_.clear();
  for (const int64_t i : averaged_) {
    const Block& block = inputs_.plan.block(i);
    const GroupStep& group = groups_[static_cast<size_t>(block.group)];
    const StepProgram& program = *group.ProgramOf(block);
    if (block.lr_sum.present() && group.active && !step_is_skipped) {
      auto* const lr_sum = reinterpret_cast<double*>(inputs_.state.out() + block.lr_sum.offset);
      *lr_sum += WeightOfIterate(*program.settings, program.lr);
    }
    if (!block.ema_offset.present() || is_updated_[static_cast<size_t>(i)] != 0) continue;
    aged_.push_back({.param = &inputs_.plan.param(block),
                     .block = &block,
                     .buffers = nullptr,
                     .program = &program,
                     .schedule = {},
                     .roots = nullptr});
  }
  backend_->AgeAverages(aged_, inputs_.state.out());
}

// Counts and logs the updates that this step has skipped. The direction of a block is known only after the states of
// the block were written. If the direction is not finite, this step therefore succeeds, and the next step returns an
// error if the group has on_nonfinite=error.
void StepContext::RecordSkippedUpdates(bool logs_all) {
  for (const StepItem& item : items_) {
    const int64_t at = BlockOf(item);
    if (update_skipped_[static_cast<size_t>(at)] == 0) continue;
    ++inputs_.history.counts().nonfinite_blocks;
    const auto group = static_cast<size_t>(item.block->group);
    inputs_.history.DeferSkippedUpdate(at, inputs_.state.hyper_parameters().settings(group).on_nonfinite);
    if (!logs_all && !inputs_.plan.Owns(*item.block)) continue;  // the owner logs the skipped update
    if (item.skip_update) continue;                              // the gradient check has already logged it
    LogText(LogLevel::kWarning, [&] { return SkippedUpdateText(inputs_.plan, *item.block); });
  }
}

void StepContext::FinishSkipped() {
  CopyState();
  StepHistory::Counts& counts = inputs_.history.counts();
  counts.nonfinite_blocks += static_cast<int64_t>(excluded_.size());
  ++counts.skipped_steps;
  PassThroughParams(true);
  UpdateAverages(true);
}

}  // namespace shampoo

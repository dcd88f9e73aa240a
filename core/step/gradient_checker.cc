// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/gradient_checker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/convert.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/comm/agreement.h"
#include "core/plan/shard_layout.h"
#include "core/rules/growth.h"
#include "core/step/rejections.h"
#include "core/step/scan_spans.h"

namespace shampoo {
namespace {

// Returns the larger of two magnitudes; NaN if either is NaN.
double LargestOf(double largest, double next) { return std::isnan(largest) || next <= largest ? largest : next; }

// Reads the largest magnitudes in the states of a block. state: the arena; nullptr if the states are not checked.
struct LargestOfStates {
  CpuBackend* backend;
  const Block* block;
  const char* state;

  double LargestMoment() const {
    const MemorySpan moment{state + block->moment().offset, block->moment().dtype, block->elements};
    double largest = 0;
    backend->LargestMagnitudes({&moment, 1}, &largest);
    return largest;
  }
  double LargestDiagonal(int k) const {
    return backend->LargestDiagonal(block->factor[static_cast<size_t>(k)], block->shape[k], state);
  }
};

using BlockGrowth = Growth<Block, LargestOfStates>;

// state: the arena. If it is nullptr, only the gradient is checked.
BlockGrowth GrowthOf(CpuBackend* backend, const StepItem& item, const char* state) {
  return {*item.program, *item.block, {backend, item.block, state}, state != nullptr};
}

// Returns the message of an error without the advice at its end.
std::string WithoutAdvice(const Status& status) {
  const std::string& text = status.message();
  return text.substr(0, text.find(kNothingChanged));
}

// Makes the exact check of one block. *by_state must be false before the call. After an error, *by_state is true if the
// gradient alone is acceptable, but a state would overflow.
Status InspectBlock(CpuBackend* backend, const StepItem& item, const char* state, bool* by_state) {
  const Param& param = *item.param;
  const Block& block = *item.block;
  const GradientInspection seen = backend->Inspect(item);
  const int64_t element =
      block.gathered ? block.tensor_offset + OffsetAt(block.shape, block.tensor_stride, seen.element) : seen.element;
  const RejectedAt at{param, block, element, seen.value};
  if (!std::isfinite(seen.value)) return RejectNotFinite(at, seen.param_at_fault);
  const double largest = std::fabs(seen.value);
  if (!GradientFits(block, largest, seen.largest_term)) return RejectElement(at);
  const double rounding = GradientRounding(*item.program, block.computation, seen.largest_term);
  const auto check_growth = [&](const BlockGrowth& growth) -> Status {
    const GrowthFault fault =
        growth.FindFault(largest, rounding, [&seen](int k) { return seen.slice_square[static_cast<size_t>(k)]; });
    if (fault.state == GrowthFault::State::kMoment) return RejectMoment(at);
    if (fault.state == GrowthFault::State::kFactor) return RejectFactor(at, fault.dim, fault.product_fits);
    return {};
  };
  *by_state = false;
  SHAMPOO_RETURN_IF_ERROR(check_growth(GrowthOf(backend, item, nullptr)));
  if (state == nullptr) return {};
  *by_state = true;
  return check_growth(GrowthOf(backend, item, state));
}

double LargestOfFactor(CpuBackend* backend, const StateSlot& slot, int64_t d, const char* state) {
  double largest = 0;
  for (int64_t row = 0; row < d && std::isfinite(largest); ++row) {
    const SymmetricRow kept = RowOf(slot.form, d, row);
    const MemorySpan row_span{ElementAt(state + slot.offset, slot.dtype, kept.first), slot.dtype, kept.count};
    double of_row = 0;
    backend->LargestMagnitudes({&row_span, 1}, &of_row);
    if (!(of_row <= largest)) largest = of_row;
  }
  return largest;
}

}  // namespace

void CheckResult::LogMessages() {
  for (std::string& message : messages) LogText(LogLevel::kWarning, [&] { return std::move(message); });
}

GradientChecker::GradientChecker(const StepInputs& inputs, CpuBackend* backend, bool defers_state_errors)
    : inputs_(inputs), backend_(backend), defers_state_errors_(defers_state_errors) {
  const PlanData& plan = inputs.plan;
  // A scan reads the gradients and parameters, or the factor matrices, or the whole blocks that this rank collects. The
  // next three variables are the numbers of spans of these scans.
  int64_t of_params = 0;
  for (const Param& param : plan.params) of_params += 2 * ScanSpans(param.elements);
  int64_t of_factors = 0;
  int64_t of_whole_blocks = 0;
  for (const Block& block : plan.blocks) {
    of_factors += block.factor_count();
    // This rank may also have to check blocks whose owner has the same shard rank in another replica.
    const bool is_collected_here = plan.gathers && block.shard_owner == plan.placement.shard_rank;
    if (is_collected_here) of_whole_blocks += 2 * ScanSpans(block.elements);
  }
  const auto max_spans = static_cast<size_t>(std::max({of_params, of_factors, of_whole_blocks}));
  spans_.reserve(max_spans);
  span_source_.reserve(max_spans);
  span_largest_.resize(max_spans);
  scanned_.reserve(std::max(plan.params.size(), plan.gathers ? plan.blocks.size() : 0));
  scanned_param_.resize(plan.params.size());
}

Status GradientChecker::CheckFactors(std::span<const StepItem> items) {
  const char* const state = inputs_.state.in();
  spans_.clear();
  span_source_.clear();
  for (size_t i = 0; i < items.size(); ++i) {
    const RootTask task = items[i].schedule.task;
    const Block& block = *items[i].block;
    if (!ReadsFactors(task) || !inputs_.plan.Owns(block)) continue;
    for (int k = 0; k < block.factor_count(); ++k) {
      const StateSlot& slot = block.factor[static_cast<size_t>(k)];
      if (!slot.present()) continue;
      spans_.push_back({state + slot.offset, slot.dtype, SpanElements(slot.form, block.shape[k])});
      span_source_.push_back(static_cast<int>(i));
    }
  }
  backend_->LargestMagnitudes(spans_, span_largest_.data());
  for (size_t i = 0, k = 0; i < spans_.size(); ++i, ++k) {
    if (i == 0 || span_source_[i] != span_source_[i - 1]) k = 0;
    const StepItem& item = items[static_cast<size_t>(span_source_[i])];
    while (!item.block->factor[k].present()) ++k;
    if (std::isfinite(span_largest_[i])) continue;
    // The span may include elements of the inverse root, which this step will overwrite.
    const double largest =
        LargestOfFactor(backend_, item.block->factor[k], item.block->shape[static_cast<int>(k)], state);
    if (std::isfinite(largest)) continue;
    return RejectFactorState(*item.param, *item.block, k, largest);
  }
  return {};
}

void GradientChecker::AddSpans(size_t source, const MemorySpan& array) {
  ForEachScanSpan(array, [&](const MemorySpan& span) {
    spans_.push_back(span);
    span_source_.push_back(static_cast<int>(source));
  });
}

void GradientChecker::ScanParams(const StepContext& context) {
  scanned_.clear();
  for (size_t p = 0; p < inputs_.plan.params.size(); ++p) {
    const Param& param = inputs_.plan.params[p];
    scanned_param_[p] = scanned_.size();
    if (!inputs_.buffers.HasGradient(param)) continue;
    const StepProgram& program = context.group(static_cast<size_t>(param.desc.group)).program;
    scanned_.push_back({&param.desc, &inputs_.buffers.all()[p], param.elements, &program});
  }
  RunScan();
}

void GradientChecker::Scan(std::span<StepItem* const> items) {
  scanned_.clear();
  for (const StepItem* item : items) {
    scanned_.push_back({&item->param->desc, item->buffers, item->block->elements, item->program});
  }
  RunScan();
}

void GradientChecker::RunScan() {
  spans_.clear();
  span_source_.clear();
  for (size_t i = 0; i < scanned_.size(); ++i) {
    AddSpans(i, {scanned_[i].buffers->grad, scanned_[i].desc->grad_dtype, scanned_[i].elements});
  }
  const size_t gradients = spans_.size();
  for (size_t i = 0; i < scanned_.size(); ++i) {
    if (scanned_[i].program->coupled_decay == 0) continue;
    AddSpans(i, {scanned_[i].buffers->param, scanned_[i].desc->param_dtype, scanned_[i].elements});
  }
  backend_->LargestMagnitudes(spans_, span_largest_.data());

  for (size_t k = 0; k < spans_.size(); ++k) {
    Scanned& scanned = scanned_[static_cast<size_t>(span_source_[k])];
    double& largest = k < gradients ? scanned.largest_gradient : scanned.largest_param;
    largest = LargestOf(largest, span_largest_[k]);
  }
  for (Scanned& scanned : scanned_) {
    const StepProgram& program = *scanned.program;
    scanned.bound = GradientBound(program, scanned.largest_gradient, scanned.largest_param);
  }
}

Status GradientChecker::CheckGradients(StepContext* context, CheckResult* result) {
  ScanParams(*context);
  context->ClearExcluded();
  // Blocks are checked in the order of the plan, so that an error names the first block at fault.
  for (size_t p = 0; p < inputs_.plan.params.size(); ++p) {
    const Param& param = inputs_.plan.params[p];
    if (!inputs_.buffers.HasGradient(param)) continue;
    const double bound = scanned_[scanned_param_[p]].bound;
    for (int64_t i = 0; i < param.block_count; ++i) {
      StepItem& item = context->ItemOf(param.first_block + i);
      const char* const state = inputs_.plan.Owns(*item.block) ? inputs_.state.in() : nullptr;
      if (GrowthOf(backend_, item, state).CannotOverflow(bound)) continue;
      SHAMPOO_RETURN_IF_ERROR(CheckExactly(&item, state, context, result));
    }
  }
  return {};
}

Status GradientChecker::CheckExactly(StepItem* item, const char* state, StepContext* context, CheckResult* result) {
  bool by_state = false;
  Status status = InspectBlock(backend_, *item, state, &by_state);
  if (status.ok()) return {};
  const auto group = static_cast<size_t>(item->block->group);
  const OnNonFinite choice = inputs_.state.hyper_parameters().settings(group).on_nonfinite;
  if (choice == OnNonFinite::kError) return status;
  const bool deferred = by_state && defers_state_errors_;
  if (deferred) {
    item->skip_update = true;
  } else {
    context->Exclude(*item);
  }
  const bool whole_step = choice == OnNonFinite::kSkipStep && !deferred;
  // If several blocks cause the step to be skipped, only the first of them is logged. The advice is omitted, because
  // the key on_nonfinite already determines what happens.
  if (LogEnabled(LogLevel::kWarning) && !(whole_step && result->skip_step)) {
    const char* const what = whole_step ? "a step is skipped: " : "a block is skipped: ";
    result->messages.push_back(Cat(what, WithoutAdvice(status)));
  }
  result->skip_step = result->skip_step || whole_step;
  return {};
}

bool GradientChecker::MayReject(StepContext* context) {
  context->ClearExcluded();
  ScanParams(*context);
  for (const StepItem& item : context->items()) {
    const Param& param = *item.param;
    const double bound =
        inputs_.buffers.HasGradient(param) ? scanned_[scanned_param_[static_cast<size_t>(item.block->param)]].bound : 0;
    if (!GrowthOf(backend_, item, nullptr).CannotOverflow(bound)) return true;
  }
  return false;
}

Status GradientChecker::CheckGradient(size_t k, StepItem* item, StepContext* context, CheckResult* result) {
  if (GrowthOf(backend_, *item, nullptr).CannotOverflow(scanned_[k].bound)) return {};
  return CheckExactly(item, nullptr, context, result);
}

bool GradientChecker::FitsState(size_t k, const StepItem& item) {
  const char* const state = inputs_.state.in();
  if (GrowthOf(backend_, item, state).CannotOverflow(scanned_[k].bound)) return true;
  bool by_state = false;
  const Status status = InspectBlock(backend_, item, state, &by_state);
  if (status.ok()) return true;
  LogText(LogLevel::kWarning, [&] { return Cat("a block is skipped: ", WithoutAdvice(status)); });
  return false;
}

}  // namespace shampoo

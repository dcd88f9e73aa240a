// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

#include "core/optimizer/check_phase.h"

#include <algorithm>
#include <cmath>

#include "core/base/convert.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/comm/agreement.h"
#include "core/optimizer/optimizer.h"
#include "core/optimizer/refusals.h"
#include "core/plan/shape.h"

namespace shampoo {
namespace {

// A factor that grows by less than this part of the largest number in a step does not reach it in 2^40 steps, so that
// its diagonal need not be read.
constexpr double kNegligible = 1.0 / (int64_t{1} << 40);

// NaN stays.
double LargestOf(double largest, double next) { return std::isnan(largest) || next <= largest ? largest : next; }

// With a margin, too, for the rounding of one number to the dtype of a state.
double StateLimit(const Block& block, Dtype state) {
  return std::min(ProductLimit(block.computation), 0.99 * LargestFinite(state));
}

// Whether keep * state + add * square stays within a state's dtype. The state is read only where the sum may come near
// the limit. Without a state (nullptr) it is the gradient alone that is judged: of a block that another rank owns there
// is none here, and all ranks must come to the same verdict on gradients.
class Growth {
 public:
  Growth(Backend* backend, const StepItem& item, const char* state) : backend_(backend), item_(item), state_(state) {}

  bool FactorFits(int k, double slice_square) const {
    const StateSlot& slot = item_.block->factor[static_cast<size_t>(k)];
    const StepProgram& program = *item_.program;
    return Fits(slot.dtype, program.factor_keep, program.factor_add * slice_square,
                [&] { return backend_->LargestDiagonal(slot, item_.block->shape[k], state_); });
  }
  bool MomentFits(double element_square) const {
    const StateSlot& slot = item_.block->grafting;
    if (!slot.present()) return true;
    const StepProgram& program = *item_.program;
    return Fits(slot.dtype, program.moment_keep, program.moment_add * element_square, [&] {
      const Stretch moment{state_ + slot.offset, slot.dtype, item_.block->elements};
      double largest = 0;
      backend_->LargestMagnitudes({&moment, 1}, &largest);
      return largest;
    });
  }

 private:
  template <typename Read>
  bool Fits(Dtype dtype, double keep, double added, Read&& read) const {
    const double limit = StateLimit(*item_.block, dtype);
    if (state_ == nullptr) return added < limit;
    return added < kNegligible * limit || keep * read() + added < limit;
  }

  Backend* backend_;
  const StepItem& item_;
  const char* state_;
};

}  // namespace

bool IsHarmless(Backend* backend, const StepItem& item, double largest, const char* state) {
  const Block& block = *item.block;
  const Growth growth(backend, item, state);
  if (!(largest < LargestFinite(ElementDtype(block)) && growth.MomentFits(largest * largest))) return false;
  for (int k = 0; k < block.factor_count(); ++k) {
    const int64_t in_slice = block.elements / block.shape[k];
    const double slice_square = largest * largest * static_cast<double>(in_slice);
    if (!(slice_square < ProductLimit(block.computation) && growth.FactorFits(k, slice_square))) return false;
  }
  return true;
}

namespace {

// What was found, without what an error says beside it.
std::string WithoutAdvice(const Status& status) {
  const std::string& text = status.message();
  return text.substr(0, text.find(kNothingChanged));
}

// The exact check, for a block that is not harmless at first sight. by_state: whether it is not the gradient alone,
// which all ranks see, that makes it fail.
Status CheckGradient(Backend* backend, const StepItem& item, const char* state, bool* by_state) {
  const Param& param = *item.param;
  const Block& block = *item.block;
  const GradientInspection seen = backend->Inspect(item);
  const int64_t element =
      block.gathered ? block.tensor_offset + OffsetAt(block.shape, block.tensor_stride, seen.element) : seen.element;
  const RefusedAt at{param, block, element, seen.value};
  if (!std::isfinite(seen.value)) return RefuseNotFinite(at, seen.param_at_fault);
  if (!(std::max(std::fabs(seen.value), seen.largest_term) < LargestFinite(ElementDtype(block)))) {
    return RefuseElement(at);
  }
  // Terms that cancel leave their rounding in the computation dtype, which may be more than their sum.
  const bool cancels = item.program->coupled_decay != 0;
  const double rounding = cancels ? 4 * MachineEpsilon(block.computation) * seen.largest_term : 0;
  const double largest = std::fabs(seen.value) + rounding;
  const auto check_growth = [&](const Growth& growth) -> Status {
    if (!growth.MomentFits(largest * largest)) return RefuseMoment(at);
    for (int k = 0; k < block.factor_count(); ++k) {
      const double in_slice = static_cast<double>(block.elements / block.shape[k]);
      const double norm = std::sqrt(seen.slice_square[static_cast<size_t>(k)]) + std::sqrt(in_slice) * rounding;
      const double slice_square = rounding == 0 ? seen.slice_square[static_cast<size_t>(k)] : norm * norm;
      const bool product_fits = slice_square < ProductLimit(block.computation);
      if (!(product_fits && growth.FactorFits(k, slice_square))) return RefuseFactor(at, k, product_fits);
    }
    return {};
  };
  *by_state = false;
  SHAMPOO_RETURN_IF_ERROR(check_growth(Growth(backend, item, nullptr)));
  if (state == nullptr) return {};
  *by_state = true;
  return check_growth(Growth(backend, item, state));
}

double LargestOfFactor(Backend* backend, const StateSlot& slot, int64_t d, const char* state) {
  double largest = 0;
  for (int64_t row = 0; row < d && std::isfinite(largest); ++row) {
    const SymmetricRow kept = RowOf(slot.form, d, row);
    const Stretch stretch{ElementAt(state + slot.offset, slot.dtype, kept.first), slot.dtype, kept.count};
    double of_row = 0;
    backend->LargestMagnitudes({&stretch, 1}, &of_row);
    if (!(of_row <= largest)) largest = of_row;
  }
  return largest;
}

}  // namespace

void Optimizer::PrepareProgram(Group* group, int64_t t) {
  group->active = true;
  group->program = MakeProgram(group->settings, t);
  group->schedule = MakeSchedule(group->settings, t);
  group->program.lr = group->CurrentLr();
  group->program.gradient_scale = group->CurrentScale();
}

// What the step will do with each block, without doing it.
Status Optimizer::ListItems() {
  for (Group& group : groups_) group.active = false;
  for (const Param& param : plan_->params) {
    if (TakesPart(param)) groups_[static_cast<size_t>(param.desc.group)].active = true;
  }
  const auto* const counters = reinterpret_cast<const int64_t*>(state_in_);
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g].active) continue;
    if (counters[g] < 0 || counters[g] >= kStepLimit) {
      return RefuseCounter(g, counters[g]);
    }
    PrepareProgram(&groups_[g], counters[g] + 1);
  }
  items_.clear();
  for (const int64_t i : blocks_by_cost_) {
    const Block& block = plan_->blocks[static_cast<size_t>(i)];
    const Param& param = plan_->params[static_cast<size_t>(block.param)];
    if (!TakesPart(param)) continue;
    item_of_block_[static_cast<size_t>(i)] = items_.size();
    const Group& group = groups_[static_cast<size_t>(block.group)];
    const Buffers* buffers = &buffers_[static_cast<size_t>(block.param)];
    char* exchange = nullptr;
    if (gathering_) {
      buffers = &whole_buffers_[static_cast<size_t>(i)];
      exchange = static_cast<char*>(buffers->out);
    } else if (exchange_) {
      exchange = exchange_->PlaceOf(block);
    }
    items_.push_back({&param, &block, buffers, &group.program, ScheduleOf(block), roots_.ReportsOf(i),
                      roots_.FirstOf(i), &stood_still_[static_cast<size_t>(i)], exchange,
                      plan_->groups[0].communicate == Communicate::kParams});
  }
  return {};
}

RootSchedule Optimizer::ScheduleOf(const Block& block) const {
  const Group& group = groups_[static_cast<size_t>(block.group)];
  // Only the owner of a block has its state, and computes its roots.
  const bool has_state = block.snapshot_step.present() && Owns(block);
  const int64_t snapshot_step =
      has_state ? *reinterpret_cast<const int64_t*>(state_in_ + block.snapshot_step.offset) : 0;
  return shampoo::ScheduleOf(group.schedule, block.phase, block.is_preconditioned, snapshot_step);
}

void Optimizer::AddStretches(size_t number, const void* data, Dtype dtype, int64_t elements) {
  for (int64_t first = 0; first < elements; first += kScanStretch) {
    stretches_.push_back({ElementAt(data, dtype, first), dtype, std::min(kScanStretch, elements - first)});
    stretch_param_.push_back(static_cast<int>(number));
  }
}

// The largest |G| of each parameter, or a bound of it.
void Optimizer::ScanGradients() {
  scanned_.clear();
  std::fill(gradient_bound_.begin(), gradient_bound_.end(), 0.0);
  for (size_t p = 0; p < plan_->params.size(); ++p) {
    const Param& param = plan_->params[p];
    const StepProgram& program = groups_[static_cast<size_t>(param.desc.group)].program;
    if (HasGradient(param)) {
      scanned_.push_back({&param.desc, &buffers_[p], param.elements, &program, &gradient_bound_[p]});
    }
  }
  BoundScanned();
}

void Optimizer::BoundScanned() {
  stretches_.clear();
  stretch_param_.clear();
  for (size_t i = 0; i < scanned_.size(); ++i) {
    AddStretches(i, scanned_[i].buffers->grad, scanned_[i].desc->grad_dtype, scanned_[i].elements);
  }
  const size_t of_gradients = stretches_.size();
  for (size_t i = 0; i < scanned_.size(); ++i) {
    if (scanned_[i].program->coupled_decay == 0) continue;
    AddStretches(i, scanned_[i].buffers->param, scanned_[i].desc->param_dtype, scanned_[i].elements);
  }
  backend_->LargestMagnitudes(stretches_, stretch_largest_.data());

  for (size_t k = 0; k < stretches_.size(); ++k) {
    Scanned& of = scanned_[static_cast<size_t>(stretch_param_[k])];
    double& largest = k < of_gradients ? of.largest_gradient : of.largest_param;
    largest = LargestOf(largest, stretch_largest_[k]);
  }
  for (const Scanned& of : scanned_) {
    *of.bound =
        std::fabs(of.program->gradient_scale) * of.largest_gradient + of.program->coupled_decay * of.largest_param;
  }
}

// A factor that the gradients made is finite, as their check sees to it; one that the host wrote may not be.
Status Optimizer::CheckFactors() {
  stretches_.clear();
  stretch_param_.clear();
  for (size_t i = 0; i < items_.size(); ++i) {
    const RootTask task = items_[i].schedule.task;
    if ((task != RootTask::kCompute && task != RootTask::kTakeSnapshot) || !Owns(*items_[i].block)) continue;
    const Block& block = *items_[i].block;
    for (int k = 0; k < block.factor_count(); ++k) {
      const StateSlot& slot = block.factor[static_cast<size_t>(k)];
      stretches_.push_back({state_in_ + slot.offset, slot.dtype, SpanElements(slot.form, block.shape[k])});
      stretch_param_.push_back(static_cast<int>(i));
    }
  }
  backend_->LargestMagnitudes(stretches_, stretch_largest_.data());
  for (size_t i = 0, k = 0; i < stretches_.size(); ++i) {
    k = i > 0 && stretch_param_[i] == stretch_param_[i - 1] ? k + 1 : 0;
    if (std::isfinite(stretch_largest_[i])) continue;
    const StepItem& item = items_[static_cast<size_t>(stretch_param_[i])];
    // The same memory may hold the inverse root, which is about to be written anew.
    const double largest =
        LargestOfFactor(backend_.get(), item.block->factor[k], item.block->shape[static_cast<int>(k)], state_in_);
    if (std::isfinite(largest)) continue;
    return RefuseFactorState(*item.param, *item.block, k, largest);
  }
  return {};
}

// The exact check of one block; what the group wants skipped is marked and told, and else an error.
Status Optimizer::CheckBlock(StepItem* item, const char* state, std::vector<std::string>* messages, bool* skip_step) {
  bool by_state = false;
  Status status = CheckGradient(backend_.get(), *item, state, &by_state);
  if (status.ok()) return {};
  const OnNonFinite choice = groups_[static_cast<size_t>(item->block->group)].settings.on_nonfinite;
  // Other ranks cannot know what the owner's state would do, and are told in the exchange.
  const bool stand = by_state && exchange_ != nullptr && choice != OnNonFinite::kError;
  if (stand) {
    item->stand = true;
  } else if (choice == OnNonFinite::kError) {
    return status;
  } else {
    bad_items_.push_back(*item);
  }
  const bool whole_step = choice == OnNonFinite::kSkipStep && !stand;
  // Of a step that is skipped the first block is told. What an error advises has been chosen already.
  if (LogEnabled(LogLevel::kWarning) && !(whole_step && *skip_step)) {
    messages->push_back(Cat(whole_step ? "a step is skipped: " : "a block is skipped: ", WithoutAdvice(status)));
  }
  *skip_step = *skip_step || whole_step;
  return {};
}

// Of a block that was gathered, so that the step has begun: whether its states take the gradient. What does not is
// told.
bool Optimizer::CheckStateOf(const StepItem& item) {
  bool by_state = false;
  const Status status = CheckGradient(backend_.get(), item, state_in_, &by_state);
  if (status.ok()) return true;
  LogText(LogLevel::kWarning, [&] { return Cat("a block is left where it is: ", WithoutAdvice(status)); });
  return false;
}

Status Optimizer::CheckGradients(bool* skip_step) {
  ScanGradients();
  *skip_step = false;
  bad_items_.clear();
  std::vector<std::string> messages;  // of skips: only where something is wrong
  // In the order of the plan, so that the first offence is the one that is told.
  for (size_t p = 0; p < plan_->params.size(); ++p) {
    const Param& param = plan_->params[p];
    if (!HasGradient(param)) continue;
    for (int64_t i = 0; i < param.block_count; ++i) {
      StepItem& item = items_[item_of_block_[static_cast<size_t>(param.first_block + i)]];
      const char* const state = Owns(*item.block) ? state_in_ : nullptr;
      if (IsHarmless(backend_.get(), item, gradient_bound_[p], state)) continue;
      SHAMPOO_RETURN_IF_ERROR(CheckBlock(&item, state, &messages, skip_step));
    }
  }
  // Only now is it sure that the step does not fail.
  for (std::string& message : messages) LogText(LogLevel::kWarning, [&] { return std::move(message); });
  return {};
}

}  // namespace shampoo

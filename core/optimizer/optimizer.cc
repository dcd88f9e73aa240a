// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/optimizer/optimizer.h"

#include <charconv>
#include <utility>

#include "core/base/catch_exceptions.h"
#include "core/base/text.h"

namespace shampoo {
namespace {

constexpr std::pair<const char*, StepPhase> kSecondsOf[] = {{"seconds.check", StepPhase::kCheck},
                                                            {"seconds.factor_update", StepPhase::kFactorUpdate},
                                                            {"seconds.roots", StepPhase::kRoots},
                                                            {"seconds.preconditioning", StepPhase::kPreconditioning},
                                                            {"seconds.elementwise", StepPhase::kElementwise}};

}  // namespace

Status Optimizer::Bind(int first, std::span<const Buffers> buffers) {
  SHAMPOO_RETURN_IF_ERROR(buffers_.Bind(first, buffers));
  strategy_->OnBindBuffers();
  return {};
}

Status Optimizer::Set(int group, const char* name, double value) {
  bool roots_depend_on_it = false;
  SHAMPOO_RETURN_IF_ERROR(state_->hyper_parameters().Set(group, name, value, &roots_depend_on_it));
  if (roots_depend_on_it) strategy_->OnChangeRootSettings();
  return {};
}

Status Optimizer::CheckExportArguments(double blend, size_t count) const {
  if (!(blend >= 0 && blend <= 1)) {
    return Invalid("blend is ", blend, ": expected a number in [0, 1]; 1 exports the averages");
  }
  if (count == plan_->params.size()) return {};
  return Invalid("count is ", count, ": expected ", plan_->params.size(), ", the number of parameters of the plan");
}

Status Optimizer::Export(Status caller_status, double blend, std::span<void* const> weights) {
  // If there is no memory for the error message, CatchExceptions() returns an error, and this rank still joins the
  // exchanges of the export.
  if (caller_status.ok()) caller_status = CatchExceptions([&] { return CheckExportArguments(blend, weights.size()); });
  return strategy_->Export(std::move(caller_status), blend, weights);
}

Status Optimizer::Stat(std::string_view name, double* value) const {
  for (const auto& [phase_name, phase] : kSecondsOf) {
    if (name != phase_name) continue;
    *value = strategy_->Seconds(phase);
    return {};
  }
  constexpr std::string_view kStepOfGroup = "step.";
  if (name.starts_with(kStepOfGroup)) return StatOfGroup(name.substr(kStepOfGroup.size()), value);
  if (history_.Stat(name, value)) return {};
  std::string phases;
  for (const auto& [phase_name, phase] : kSecondsOf) phases += Cat(phase_name, ", ");
  return Invalid("there is no statistic \"", name, "\": expected one of the names steps, step.<group>, ", phases,
                 StepHistory::StatNames());
}

Status Optimizer::StatOfGroup(std::string_view number, double* value) const {
  size_t group = 0;
  const size_t groups = plan_->groups.size();
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), group);
  // The name of a group's statistic has only one accepted spelling. For example, "step.-0" and "step.00" are errors.
  if (error != std::errc() || group >= groups || number != Cat(group)) {
    return Invalid("there is no statistic \"step.", number, "\": expected step.0",
                   groups == 1 ? std::string() : Cat(" to step.", groups - 1));
  }
  SHAMPOO_RETURN_IF_ERROR(state_->CheckUsable(state_->out()));
  SHAMPOO_RETURN_IF_ERROR(state_->memory().CheckReadable(Cat("the statistic \"step.", number, "\"")));
  int64_t step = 0;
  SHAMPOO_RETURN_IF_ERROR(state_->ReadSteps(group, &step));
  *value = static_cast<double>(step);
  return {};
}

}  // namespace shampoo

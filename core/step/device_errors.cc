// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/device_errors.h"

#include "core/base/log.h"
#include "core/base/text.h"
#include "core/comm/agreement.h"
#include "core/plan/block_states.h"
#include "core/rules/growth.h"
#include "core/step/rejections.h"

namespace shampoo {
namespace {

Status RejectBlock(const StepInputs& inputs, const cuda::StepReport& report) {
  using cuda::Rejection;
  const Block& block = inputs.plan.block(report.block);
  const int64_t element = block.gathered
                              ? block.tensor_offset + OffsetAt(block.shape, block.tensor_stride, report.element)
                              : report.element;
  const RejectedAt at{inputs.plan.param(block), block, element, report.value};
  switch (report.rejection) {
    case Rejection::kElementTooLarge:
      return RejectElement(at);
    case Rejection::kMomentTooLarge:
      return RejectMoment(at);
    case Rejection::kProductTooLarge:
    case Rejection::kFactorTooLarge:
      return RejectFactor(at, report.dim, report.rejection == Rejection::kFactorTooLarge);
    case Rejection::kFactorNotFinite:
      return RejectFactorState(at.param, block, static_cast<size_t>(report.dim), report.value);
    default:
      return RejectNotFinite(at, report.rejection == Rejection::kParamNotFinite);
  }
}

Status RejectSchedule(const StepInputs& inputs, const cuda::StepReport& report, std::span<const int64_t> expected_steps,
                      int64_t last_ticket) {
  const auto counter = static_cast<int64_t>(report.value);
  constexpr const char* kAfterSuchAWrite =
      ". If your program wrote the state, call shampoo_optimizer_bind_state with NULL and NULL, then bind the arena "
      "again";
  constexpr const char* kStepOutside = ". Call shampoo_optimizer_step for this step outside of a capture";
  if (report.rejected_ticket == last_ticket && report.block >= 0) {
    const Block& block = inputs.plan.block(report.block);
    return WrongState("the state \"", BlockName(inputs.plan.param(block), block), "/",
                      block.gradient_count.present() ? kGradientCount : kSnapshotStep,
                      "\" is not what the previous step left", kNothingChanged, kAfterSuchAWrite);
  }
  if (report.rejected_ticket == last_ticket) {
    return WrongState("the state \"group.", report.group, "/step\" is ", counter, ", but the previous step left ",
                      expected_steps[static_cast<size_t>(report.group)] - 1, kNothingChanged, kAfterSuchAWrite);
  }
  if (report.block >= 0 && inputs.plan.block(report.block).is_rotated()) {
    return WrongState("a captured step was replayed as step ", counter + 1, " of group ", report.group,
                      ", at which eigenbases are due", kNothingChanged, kStepOutside);
  }
  return WrongState(
      "a captured step was replayed as step ", counter + 1, " of group ", report.group,
      ", but this step needs work that was not captured: it computes inverse roots, starts to use new ones, "
      "or computes the direction by another rule",
      kNothingChanged, kStepOutside);
}

}  // namespace

Status DeviceError(const StepInputs& inputs, const cuda::StepReport& report, std::span<const int64_t> expected_steps,
                   int64_t last_ticket) {
  using cuda::Rejection;
  const auto group = static_cast<size_t>(report.group);
  switch (report.rejection) {
    case Rejection::kCounter:
      return RejectCounter(group, static_cast<int64_t>(report.value));
    case Rejection::kSchedule:
      return RejectSchedule(inputs, report, expected_steps, last_ticket);
    case Rejection::kBoundScalar:
      return inputs.state.hyper_parameters().RejectScalar(group, BindableName(report.dim), report.value);
    case Rejection::kGradientNotFinite:
    case Rejection::kParamNotFinite:
    case Rejection::kElementTooLarge:
    case Rejection::kMomentTooLarge:
    case Rejection::kProductTooLarge:
    case Rejection::kFactorTooLarge:
    case Rejection::kFactorNotFinite:
      return RejectBlock(inputs, report);
    case Rejection::kNone:
    case Rejection::kOtherRank:
      break;
  }
  return Internal("the CUDA backend rejected a step for the unknown reason ", static_cast<int32_t>(report.rejection));
}

Status RejectCapture(const StepInputs& inputs, const Block& block, const GroupSchedule& schedule, int64_t step) {
  const Settings& settings = inputs.state.hyper_parameters().settings(static_cast<size_t>(block.group));
  if (block.is_rotated()) {
    return WrongState(
        "eigenbases of group ", block.group, " are due at step ", step,
        " (precondition_frequency=", settings.precondition_frequency,
        "), and such a step cannot be captured: call shampoo_optimizer_step for this step outside of a capture");
  }
  return WrongState(
      "inverse roots of group ", block.group, " are ", IsDue(schedule, block.phase) ? "due" : "put into use",
      " at step ", step, " (precondition_frequency=", settings.precondition_frequency,
      settings.refresh_growth > 0 ? Cat(", refresh_growth=", settings.refresh_growth) : std::string(),
      settings.root_async > 0 ? Cat(", root_async=", settings.root_async) : std::string(),
      "), and such a step cannot be captured: call shampoo_optimizer_step for this step outside of a capture");
}

int64_t LogSkipped(const StepInputs& inputs, const cuda::StepReport& before, const cuda::StepReport& now) {
  const int64_t updates = now.skipped_updates - before.skipped_updates;
  const int64_t gradients = now.nonfinite_blocks - before.nonfinite_blocks - updates;
  const auto one_of = [](int64_t blocks) {
    return blocks == 1 ? std::string() : Cat(" (one of ", blocks, " such blocks)");
  };
  if (gradients > 0) {
    LogText(LogLevel::kWarning, [&] {
      const bool whole_step = now.skipped_steps > before.skipped_steps;
      const Block& block = inputs.plan.block(now.skipped_block);
      return Cat(whole_step ? "a step is skipped: " : "a block is skipped: ", "the gradient of block ",
                 BlockName(inputs.plan.param(block), block), one_of(gradients), " is too large or not finite");
    });
  }
  if (updates == 0) return -1;
  const Block& without_update = inputs.plan.block(now.block_without_update);
  // If the block is gathered, only its owner logs the skipped update.
  if (without_update.gathered && !inputs.plan.Owns(without_update)) return now.block_without_update;
  LogText(LogLevel::kWarning, [&] { return Cat(SkippedUpdateText(inputs.plan, without_update), one_of(updates)); });
  return now.block_without_update;
}

}  // namespace shampoo

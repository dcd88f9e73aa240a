// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/step_history.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"

namespace shampoo {
namespace {

// Returns the part of a message that lists further possible reasons for a skipped update. These reasons depend on the
// method and the keys of the block. Returns "" if there are none.
std::string OtherReason(const PlanData& plan, const Settings& settings, const Block& block) {
  std::string reason;
  const bool is_exact = settings.orthogonalization == Orthogonalization::kExact;
  if (block.has_orthogonal_direction()) {
    if (!is_exact) {
      reason = ", or the iteration diverged with these ns_coefficients";
    } else if (plan.placement.device == DeviceType::kCpu) {
      reason = ", or LAPACK could not compute the singular value decomposition for this block";
    }
  }
  if (block.radius.present() && settings.norm_radius == 0) {
    reason += ", or the parameter is 0 (norm_control=hyperball cannot move it without a norm_radius)";
  } else if (settings.norm_control == NormControl::kRelative && block.matrix_rows > 0 && !block.is_routed) {
    reason += ", or the parameter is 0 (norm_control=relative cannot move it)";
  }
  return reason;
}

// Returns the advice to use a larger epsilon, for a message about a skipped update of the block, or "" if no epsilon
// limits the direction.
std::string AdviceOnEpsilon(const Settings& settings, const Block& block) {
  if (block.is_routed) return "a larger adam_epsilon, ";
  if (block.moment_of_direction == DirectionMoment::kElement) return "a larger epsilon, ";
  if (GraftsDirection(settings.method) && !block.is_preconditioned) {
    return settings.has_moment() ? "a larger grafting_epsilon, " : "";
  }
  if (IsSteepestDescent(settings.method) || settings.method == Method::kSgd) return "";
  return Cat("a larger ", settings.EpsilonKey(), ", ");
}

}  // namespace

void StepHistory::DeferSkippedUpdate(int64_t block, OnNonFinite choice) {
  if (choice != OnNonFinite::kError) return;
  skipped_block_ = skipped_block_ < 0 ? block : std::min(skipped_block_, block);
}

Status StepHistory::RaiseSkippedUpdate(const HyperParameters& hyper_parameters) {
  if (skipped_block_ < 0) return {};
  const Block& block = plan_.blocks[static_cast<size_t>(std::exchange(skipped_block_, -1))];
  const Settings& settings = hyper_parameters.settings(static_cast<size_t>(block.group));
  return Numeric("the direction of block ", BlockName(plan_.param(block), block),
                 " was not finite, or would have overflowed the parameter or a state",
                 OtherReason(plan_, settings, block),
                 "; the previous step skipped the update of the block. This step has changed nothing, and training can "
                 "continue. Try ",
                 AdviceOnEpsilon(settings, block), "a lower learning rate, wider dtypes, or on_nonfinite=skip_block");
}

Status StepHistory::RaiseRootFailure(bool* is_forwarded) {
  const int64_t of_other_rank = std::exchange(root_of_other_rank_, -1);
  SHAMPOO_RETURN_IF_ERROR(roots_.RaiseFailure());
  if (of_other_rank < 0) return {};
  *is_forwarded = true;
  return Numeric("the ", roots_.DescribeRoot(of_other_rank),
                 " failed at more refreshes in a row than root_failure_tolerance allows; see the log of the rank that "
                 "owns the block");
}

void StepHistory::DiscardErrors() {
  skipped_block_ = -1;
  root_of_other_rank_ = -1;
  roots_.ForgetFailures();
}

bool StepHistory::Stat(std::string_view name, double* value) const {
  if (name == "steps") {
    *value = static_cast<double>(counts_.steps);
  } else if (name == "nonfinite_blocks") {
    *value = static_cast<double>(counts_.nonfinite_blocks);
  } else if (name == "skipped_steps") {
    *value = static_cast<double>(counts_.skipped_steps);
  } else {
    return roots_.Stat(name, value);
  }
  return true;
}

std::string StepHistory::StatNames() { return Cat("nonfinite_blocks, skipped_steps, ", RootLedger::StatNames()); }

std::string SkippedUpdateText(const PlanData& plan, const Block& block) {
  return Cat("the direction of block ", BlockName(plan.param(block), block),
             " is not finite, or would overflow a dtype", OtherReason(plan, plan.group(block), block),
             ": the update of the block is skipped");
}

}  // namespace shampoo

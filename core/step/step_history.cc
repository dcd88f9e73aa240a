// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/step_history.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"

namespace shampoo {
namespace {

// Another reason for a skipped update, if the block may have it.
std::string OtherReason(const Block& block, const Settings& settings) {
  if (block.radius.present()) {
    return ", or its parameter is 0, which norm_control hyperball cannot move without a norm_radius";
  }
  if (settings.norm_control == NormControl::kRelative && block.matrix_rows > 0) {
    return ", or its parameter is 0, which norm_control relative cannot move";
  }
  return "";
}

}  // namespace

void StepHistory::DeferSkippedUpdate(int64_t block, OnNonFinite choice) {
  if (choice != OnNonFinite::kError) return;
  skipped_block_ = skipped_block_ < 0 ? block : std::min(skipped_block_, block);
}

Status StepHistory::RaiseSkippedUpdate(const HyperParameters& hyper_parameters) {
  if (skipped_block_ < 0) return {};
  const Block& block = plan_.blocks[static_cast<size_t>(std::exchange(skipped_block_, -1))];
  return Numeric("the direction of block ", BlockName(plan_.param(block), block),
                 " was not finite, or would have overflowed its parameter or states",
                 OtherReason(block, hyper_parameters.settings(static_cast<size_t>(block.group))),
                 "; the previous step skipped the update of the block. This step has changed nothing, and training can "
                 "continue. Try a larger ",
                 hyper_parameters.settings(static_cast<size_t>(block.group)).EpsilonKey(),
                 ", a lower learning rate, wider dtypes, or on_nonfinite skip_block");
}

Status StepHistory::RaiseRootFailure(bool* is_forwarded) {
  const int64_t of_other_rank = std::exchange(root_of_other_rank_, -1);
  SHAMPOO_RETURN_IF_ERROR(roots_.RaiseFailure());
  if (of_other_rank < 0) return {};
  *is_forwarded = true;
  return Numeric("the ", roots_.DescribeRoot(of_other_rank),
                 " could not be computed at more refreshes in a row than root_failure_tolerance allows; see the log of "
                 "the rank that owns the block");
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

std::string SkippedUpdateText(const Param& param, const Block& block, const Settings& settings) {
  return Cat("the direction of block ", BlockName(param, block), " is not finite, or would overflow a dtype",
             OtherReason(block, settings), ": the update of the block is skipped");
}

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/config/settings.h"
#include "core/plan/plan.h"
#include "core/state/hyper_parameters.h"
#include "core/step/root_ledger.h"

namespace shampoo {

// The results of all steps so far: counts, the reports of inverse roots, and the errors that the next step returns.
class StepHistory {
 public:
  struct Counts {
    int64_t steps = 0;             // successful steps that were not skipped
    int64_t skipped_steps = 0;     // successful steps that updated no block (on_nonfinite=skip_step)
    int64_t nonfinite_blocks = 0;  // how often a block caused a skip of its update or of the whole step
  };

  // The plan must outlive this object.
  explicit StepHistory(const PlanData& plan) : plan_(plan) { roots_.Prepare(plan); }

  Counts& counts() { return counts_; }
  RootLedger& roots() { return roots_; }

  // Call for a block whose update was skipped in this step. choice: the key on_nonfinite of the block's group. If
  // choice is kError, the next RaiseSkippedUpdate() returns an error. If choice was kError in several calls, the error
  // names the block that is first in the plan.
  void DeferSkippedUpdate(int64_t block, OnNonFinite choice);
  Status RaiseSkippedUpdate(const HyperParameters& hyper_parameters);

  // Call if the inverse root of a factor matrix failed too often on another rank. factor: index of the factor matrix in
  // the plan.
  void DeferRootFailureOfOtherRank(int64_t factor) { root_of_other_rank_ = factor; }
  // Returns an error if an inverse root failed more often in a row than root_failure_tolerance allows. Sets
  // *is_forwarded to true if the root belongs to another rank, whose own error has more detail.
  Status RaiseRootFailure(bool* is_forwarded);

  // Discards the errors of earlier steps.
  void DiscardErrors();

  // Returns false if there is no such statistic.
  bool Stat(std::string_view name, double* value) const;
  static std::string StatNames();

 private:
  const PlanData& plan_;
  Counts counts_;
  RootLedger roots_;
  int64_t skipped_block_ = -1;       // for RaiseSkippedUpdate(); -1: no block
  int64_t root_of_other_rank_ = -1;  // for RaiseRootFailure(); -1: no root
};

// Returns the log message about a block whose update was skipped.
std::string SkippedUpdateText(const PlanData& plan, const Block& block);

}  // namespace shampoo

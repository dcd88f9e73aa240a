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

// What the steps so far have left: counts, the reports of inverse roots, and the errors that the next step returns.
class StepHistory {
 public:
  struct Counts {
    int64_t steps = 0;             // made
    int64_t skipped_steps = 0;     // succeeded and changed nothing
    int64_t nonfinite_blocks = 0;  // not stepped, because a gradient or a direction was not usable
  };

  // The plan must outlive this object.
  explicit StepHistory(const PlanData& plan) : plan_(plan) { roots_.Prepare(plan); }

  Counts& counts() { return counts_; }
  RootLedger& roots() { return roots_; }

  // A block whose update was skipped in this step. If its group asks for an error, the next step returns one for the
  // first such block of the plan.
  void DeferSkippedUpdate(int64_t block, OnNonFinite choice);
  Status RaiseSkippedUpdate(const HyperParameters& hyper_parameters);

  // An inverse root that another rank could not compute too often; factor: its number in the plan.
  void DeferRootOfOtherRank(int64_t factor) { root_of_other_rank_ = factor; }
  // The error for an inverse root that could not be computed too often. is_forwarded: set to true if it is that of
  // another rank, which returns a text with more detail.
  Status RaiseOverdueRoots(bool* is_forwarded);

  // Discards the errors of earlier steps.
  void DiscardErrors();

  // Returns false if there is no such statistic.
  bool Stat(std::string_view name, double* value) const;
  static std::string StatNames();

 private:
  const PlanData& plan_;
  Counts counts_;
  RootLedger roots_;
  int64_t skipped_block_ = -1;       // -1: none
  int64_t root_of_other_rank_ = -1;  // -1: none
};

// Text for a block whose update was skipped.
std::string SkippedUpdateText(const Param& param, const Block& block);

}  // namespace shampoo

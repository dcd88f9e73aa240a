// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/plan.h"
#include "core/roots/residual.h"

namespace shampoo {

// Stores the report of the last refresh of each inverse root or eigenbasis, and counts the outcomes of all refreshes
// since the optimizer was created.
class RootLedger {
 public:
  // Allocates the reports of all factor matrices of the plan, so that steps allocate nothing.
  void Prepare(const PlanData& plan);

  int64_t FirstFactorOf(int64_t block) const { return first_of_block_[static_cast<size_t>(block)]; }
  RootReport* ReportsOf(int64_t block) { return reports_.data() + FirstFactorOf(block); }

  // Counts the roots of a block, and logs those that failed or were recovered. Call after a step for every block whose
  // roots were refreshed. Cannot fail.
  void Record(const PlanData& plan, const Block& block, const Settings& settings) noexcept;
  // Call after all calls of Record() for a step. tracked: whether track_root_residuals is true for one of the recorded
  // blocks. If so, logs a summary of all residuals that are stored.
  void FinishRefresh(bool tracked) noexcept;

  // Returns the index of the factor matrix for which the next RaiseFailure() returns an error; -1 if there is none.
  int64_t failing_root() const { return failing_root_; }
  // Returns "inverse root of <parameter>/<block>/factor.<dim>", or "eigenbasis of ...".
  std::string DescribeRoot(int64_t factor) const;
  // Returns an error for the first factor matrix for which Record() has counted more failures in a row than
  // root_failure_tolerance. The next call returns an error only after another refresh has failed.
  Status RaiseFailure();
  // Sets the counts of failures in a row to 0, and discards the error that the next RaiseFailure() would return.
  void ForgetFailures();

  // Returns false if no statistic of the roots has this name.
  bool Stat(std::string_view name, double* value) const;
  static std::string StatNames();

 private:
  std::string Describe(size_t first, size_t end) const;
  double Quantile(double RootResiduals::*measure, double share) const;
  double Mean(double RootResiduals::*measure) const;
  int64_t Worst(double RootResiduals::*measure) const;

  std::vector<int64_t> first_of_block_;
  std::vector<RootReport> reports_;
  std::vector<std::string> names_;        // by factor matrix
  std::vector<const char*> kinds_;        // by factor matrix: "inverse root" or "eigenbasis"
  std::vector<int64_t> failures_in_row_;  // by factor matrix
  std::vector<char> tracked_;             // by factor matrix: whether its last refresh measured residuals
  int64_t failing_root_ = -1;             // see failing_root()
  int64_t failing_root_tolerance_ = 0;    // root_failure_tolerance in the group of failing_root_
  const char* advice_ = "";               // part of the error about failing_root_

  int64_t computed_ = 0;                           // roots that were computed, including retried_
  int64_t reused_ = 0;                             // roots that could not be computed: the previous roots stay in use
  int64_t retried_ = 0;                            // roots that the recovery ladder computed
  std::array<int64_t, kRootKindCount> by_kind_{};  // computed_ by RootKind
  std::array<int64_t, kRungCount> by_rung_{};      // retried_ by Rung
};

}  // namespace shampoo

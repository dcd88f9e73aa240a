// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/root_ledger.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/log.h"
#include "core/base/text.h"

namespace shampoo {
namespace {

constexpr const char* kKindNames[kRootKindCount] = {"root_scalar", "root_diagonal",     "root_eigen",
                                                    "root_newton", "root_higher_order", "root_cans"};
// For each rung, the name of the statistic that counts the roots that this rung recovered. The first rung is the
// requested method and not a recovery, so it has no statistic.
constexpr const char* kRungNames[kRungCount] = {nullptr,
                                                "root_retried_float64",
                                                "root_retried_eigen",
                                                "root_retried_dsyevr",
                                                "root_retried_dsyev",
                                                "root_retried_device",
                                                "root_retried_device_newton"};

struct Measure {
  const char* name;
  double RootResiduals::*value;
};
constexpr Measure kMeasures[] = {{"root_error", &RootResiduals::error}, {"root_residual", &RootResiduals::residual}};

}  // namespace

void RootLedger::Prepare(const PlanData& plan) {
  for (const Block& block : plan.blocks) {
    first_of_block_.push_back(static_cast<int64_t>(names_.size()));
    const std::string name = BlockName(plan.param(block), block);
    const char* const kind = UsesEigenbasis(plan.group(block).method) ? "eigenbasis" : "inverse root";
    for (int k = 0; k < block.factor_count(); ++k) {
      names_.push_back(Cat(name, "/factor.", k));
      kinds_.push_back(kind);
    }
  }
  reports_.resize(names_.size());
  failures_in_row_.resize(names_.size());
  tracked_.resize(names_.size());
}

void RootLedger::Record(const PlanData& plan, const Block& block, const Settings& settings) noexcept {
  const auto first = static_cast<size_t>(FirstFactorOf(&block - plan.blocks.data()));
  const size_t end = first + static_cast<size_t>(block.factor_count());
  bool needs_warning = false;
  for (size_t i = first; i < end; ++i) {
    if (!block.has_factor(static_cast<int>(i - first)) || reports_[i].is_stale) continue;
    const RootOutcome& outcome = reports_[i].outcome;
    tracked_[i] = static_cast<char>(outcome.ok() && settings.track_root_residuals);
    needs_warning = needs_warning || !outcome.ok() || outcome.rung != Rung::kRequested;
    if (outcome.ok()) {
      failures_in_row_[i] = 0;
      ++computed_;
      ++by_kind_[static_cast<size_t>(outcome.kind)];
      if (outcome.rung == Rung::kRequested) continue;
      ++retried_;
      ++by_rung_[static_cast<size_t>(outcome.rung)];
      continue;
    }
    ++reused_;
    if (++failures_in_row_[i] > settings.root_failure_tolerance && failing_root_ < 0) {
      failing_root_ = static_cast<int64_t>(i);
      failing_root_tolerance_ = settings.root_failure_tolerance;
      advice_ = UsesEigenbasis(settings.method)                               ? "a computation_dtype"
                : settings.root_rank_handling == RankHandling::kPseudoInverse ? "a larger root_rank_rtol, a root_dtype"
                : settings.root_relative_epsilon > 0 ? "a larger root_relative_epsilon, a root_dtype"
                                                     : "a larger epsilon, a root_dtype";
    }
  }
  if (needs_warning) LogText(LogLevel::kWarning, [&] { return Describe(first, end); });
}

std::string RootLedger::DescribeRoot(int64_t factor) const {
  const auto i = static_cast<size_t>(factor);
  return Cat(kinds_[i], " of ", names_[i]);
}

// Returns one line that describes those factor matrices with indices in [first, end) whose root failed or was
// recovered.
std::string RootLedger::Describe(size_t first, size_t end) const {
  std::string text;
  for (size_t i = first; i < end; ++i) {
    const RootOutcome& outcome = reports_[i].outcome;
    if (outcome.ok() && outcome.rung == Rung::kRequested) continue;
    text += Cat(text.empty() ? "" : "; ", "the ", DescribeRoot(static_cast<int64_t>(i)), " could not be computed");
    text += outcome.ok()
                ? Cat(" at first: ", FailureText(outcome.first_failure), "; recovered by ", RungText(outcome.rung))
                : Cat(": ", FailureText(outcome.failure), "; the block keeps its previous ", kinds_[i]);
  }
  return text;
}

void RootLedger::FinishRefresh(bool tracked) noexcept {
  if (!tracked) return;
  LogText(LogLevel::kInfo, [this] {
    std::string text = "inverse roots compared with float64:";
    for (const Measure& measure : kMeasures) {
      const int64_t worst = Worst(measure.value);
      if (worst < 0) continue;
      text += Cat(measure.value == kMeasures[0].value ? " " : "; ", measure.name, " mean ", Mean(measure.value),
                  ", median ", Quantile(measure.value, 0.5), ", 90th percentile ", Quantile(measure.value, 0.9),
                  ", largest ", Quantile(measure.value, 1.0), " (", names_[static_cast<size_t>(worst)], ")");
    }
    return text;
  });
}

Status RootLedger::RaiseFailure() {
  if (failing_root_ < 0) return {};
  const auto i = static_cast<size_t>(std::exchange(failing_root_, -1));
  return Numeric("the ", DescribeRoot(static_cast<int64_t>(i)), " could not be computed at ",
                 failures_in_row_[i] == 1 ? "1 refresh" : Cat(failures_in_row_[i], " refreshes in a row"),
                 ", which is more than root_failure_tolerance (", failing_root_tolerance_,
                 "): ", FailureText(reports_[i].outcome.failure), ". The previous step used the old ", kinds_[i],
                 "; this step has changed nothing, and training can continue. Try ", advice_,
                 " of f64, a lower learning rate or gradient clipping");
}

void RootLedger::ForgetFailures() {
  failing_root_ = -1;
  std::fill(failures_in_row_.begin(), failures_in_row_.end(), 0);
}

int64_t RootLedger::Worst(double RootResiduals::*measure) const {
  int64_t worst = -1;
  for (size_t i = 0; i < reports_.size(); ++i) {
    if (tracked_[i] == 0) continue;
    const double value = reports_[i].residuals.*measure;
    if (worst < 0 || value > reports_[static_cast<size_t>(worst)].residuals.*measure) worst = static_cast<int64_t>(i);
  }
  return worst;
}

double RootLedger::Mean(double RootResiduals::*measure) const {
  double sum = 0;
  double count = 0;
  for (size_t i = 0; i < reports_.size(); ++i) {
    if (tracked_[i] == 0) continue;
    sum += reports_[i].residuals.*measure;
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

// Returns a quantile by the nearest-rank method: the smallest value v such that at least the fraction `share` of all
// values is <= v.
double RootLedger::Quantile(double RootResiduals::*measure, double share) const {
  std::vector<double> values;
  for (size_t i = 0; i < reports_.size(); ++i) {
    if (tracked_[i] != 0) values.push_back(reports_[i].residuals.*measure);
  }
  if (values.empty()) return 0;
  const auto rank = static_cast<size_t>(std::max(std::ceil(share * static_cast<double>(values.size())), 1.0)) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rank), values.end());
  return values[rank];
}

bool RootLedger::Stat(std::string_view name, double* value) const {
  const auto matches = [&](std::string_view own, double number) {
    if (name != own) return false;
    *value = number;
    return true;
  };
  if (matches("root_computed", static_cast<double>(computed_)) ||
      matches("root_reused", static_cast<double>(reused_)) || matches("root_retried", static_cast<double>(retried_))) {
    return true;
  }
  for (size_t i = 0; i < kRootKindCount; ++i) {
    if (matches(kKindNames[i], static_cast<double>(by_kind_[i]))) return true;
  }
  for (size_t i = 0; i < kRungCount; ++i) {
    if (kRungNames[i] != nullptr && matches(kRungNames[i], static_cast<double>(by_rung_[i]))) return true;
  }
  for (const Measure& measure : kMeasures) {
    if (name.substr(0, name.find('.')) != measure.name) continue;
    const std::string_view which = name.substr(std::min(name.size(), name.find('.')));
    const std::pair<std::string_view, double> values[] = {{".mean", Mean(measure.value)},
                                                          {".median", Quantile(measure.value, 0.5)},
                                                          {".p90", Quantile(measure.value, 0.9)},
                                                          {".max", Quantile(measure.value, 1.0)},
                                                          {".worst", static_cast<double>(Worst(measure.value))}};
    for (const auto& [suffix, number] : values) {
      if (which == suffix) {
        *value = number;
        return true;
      }
    }
  }
  return false;
}

std::string RootLedger::StatNames() {
  std::string names = "root_computed, root_reused, root_retried";
  for (const char* name : kKindNames) names += Cat(", ", name);
  for (const char* name : kRungNames) {
    if (name != nullptr) names += Cat(", ", name);
  }
  for (const Measure& measure : kMeasures) names += Cat(", ", measure.name, ".{mean,median,p90,max,worst}");
  return names;
}

}  // namespace shampoo

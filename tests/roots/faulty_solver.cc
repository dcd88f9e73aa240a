// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Replaces core/roots/solver.cc. Each Solve function calls the real solver. If Faults() contains a fault for this call,
// the function then replaces or changes the result.
#include <algorithm>
#include <limits>

#include "core/roots/drivers.h"
#include "core/roots/solver.h"
#include "tests/roots/faults.h"

namespace shampoo {
namespace roots_test {

void FaultPlan::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.clear();
  calls_.clear();
}

void FaultPlan::Add(int64_t matrix, Rung rung, Fault fault, int64_t call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.push_back({matrix, rung, fault, call});
}

bool FaultPlan::Find(int64_t matrix, Rung rung, Fault* fault) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int64_t call = calls_[{matrix, rung}]++;
  for (const Entry& entry : entries_) {
    if ((entry.matrix == kEveryMatrix || entry.matrix == matrix) && entry.rung == rung &&
        (entry.call == kEveryCall || entry.call == call)) {
      *fault = entry.fault;
      return true;
    }
  }
  return false;
}

int64_t FaultPlan::Calls(int64_t matrix, Rung rung) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return calls_[{matrix, rung}];
}

FaultPlan& Faults() {
  static FaultPlan plan;
  return plan;
}

}  // namespace roots_test

template <typename Root>
int SolveEigen(const RootSpec& spec, Rung rung, EigenDriver driver, int64_t n, Root* a, Root* l,
               const RootWorkspace<Root>& workspace) {
  const int info = RunEigenDriver(driver, n, a, l, workspace);
  roots_test::Fault fault;
  if (!roots_test::Faults().Find(spec.id, rung, &fault)) return info;
  if (fault == roots_test::Fault::kReported) return 3;
  // The fault affects as little as possible: one eigenvalue (kNan) or one element of one eigenvector (kGarbage).
  if (fault == roots_test::Fault::kNan) l[n / 2] = std::numeric_limits<Root>::quiet_NaN();
  if (fault == roots_test::Fault::kGarbage) a[n * n / 2] += Root{0.01};
  return 0;
}

template <typename Root>
CoupledResult<Root> SolveCoupled(const RootSpec& spec, Rung rung, int64_t n, int scale,
                                 const RootWorkspace<Root>& workspace) {
  CoupledResult<Root> result = RunCoupled(spec, n, scale, workspace);
  roots_test::Fault fault;
  if (!roots_test::Faults().Find(spec.id, rung, &fault)) return result;
  if (fault == roots_test::Fault::kReported) {
    result.converged = 0;
    std::fill(result.x, result.x + n * n, Root{0});
  }
  if (fault == roots_test::Fault::kNan) result.x[n * n / 2] = std::numeric_limits<Root>::quiet_NaN();
  if (fault == roots_test::Fault::kGarbage) {
    for (int64_t i = 0; i < n * n; ++i) result.x[i] *= Root{1.1};
  }
  return result;
}

CansResult SolveCans(const RootSpec& spec, Rung rung, int64_t n, int scale, const RootWorkspace<double>& workspace) {
  const CansResult result = CansRoot(spec, n, scale, workspace);
  roots_test::Fault fault;
  if (!roots_test::Faults().Find(spec.id, rung, &fault)) return result;
  if (fault == roots_test::Fault::kReported) std::fill(result.x, result.x + n * n, 0.0);
  if (fault == roots_test::Fault::kNan) result.x[n * n / 2] = std::numeric_limits<double>::quiet_NaN();
  if (fault == roots_test::Fault::kGarbage) {
    for (int64_t i = 0; i < n * n; ++i) result.x[i] *= 1.001;
  }
  return result;
}

ResolventResult SolveResolvents(const RootSpec& spec, Rung rung, int64_t n, double epsilon,
                                const RootWorkspace<float>& workspace) {
  ResolventResult result = RunResolvents(n, epsilon, workspace);
  roots_test::Fault fault;
  if (!result.suitable || !roots_test::Faults().Find(spec.id, rung, &fault)) return result;
  if (fault == roots_test::Fault::kReported) result.solver_info = 3;
  if (fault == roots_test::Fault::kNan) result.x[n * n / 2] = std::numeric_limits<float>::quiet_NaN();
  if (fault == roots_test::Fault::kGarbage) result.x[n * n / 2] += static_cast<float>(0.01 * result.largest_of_x);
  return result;
}

template int SolveEigen<float>(const RootSpec&, Rung, EigenDriver, int64_t, float*, float*,
                               const RootWorkspace<float>&);
template int SolveEigen<double>(const RootSpec&, Rung, EigenDriver, int64_t, double*, double*,
                                const RootWorkspace<double>&);
template CoupledResult<float> SolveCoupled<float>(const RootSpec&, Rung, int64_t, int, const RootWorkspace<float>&);
template CoupledResult<double> SolveCoupled<double>(const RootSpec&, Rung, int64_t, int, const RootWorkspace<double>&);

}  // namespace shampoo

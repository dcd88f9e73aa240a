// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/eigen.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/roots/probe.h"
#include "core/roots/solver.h"

namespace shampoo {
namespace {

// At or below this an eigenvalue counts as 0.
double RankCutoff(const RootSpec& spec, double largest) {
  return std::max(spec.rank_rtol * std::max(largest, 0.0), spec.rank_atol);
}

// l^exponent, or 0 for a direction that is dropped. NaN: there is no such root, as the shifted l is at or below
// `smallest`.
double RootOfEigenvalue(const RootSpec& spec, double l, double least, double cutoff, double smallest, double exponent) {
  if (spec.pseudo_inverse) return l > cutoff ? std::pow(l, exponent) : 0.0;
  // In this order: next to a large negative eigenvalue epsilon would be lost.
  const double shifted = (l - least) + spec.epsilon;
  if (shifted > smallest || exponent >= 0) return std::pow(shifted, exponent);
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

template <typename Root>
RootOutcome EigenRoot(const RootSpec& spec, Rung rung, EigenDriver driver, int64_t n, int scale,
                      const RootWorkspace<Root>& workspace, Root** x) {
  RootOutcome outcome;
  Root* const a = workspace.Matrix(n);
  Root* const l = workspace.Vector(0, n);
  EigenProbe<Root> probe(n, workspace);
  probe.BeforeSolve(a);
  outcome.solver_info = SolveEigen(spec, rung, driver, n, a, l, workspace);
  if (outcome.solver_info != 0) {
    outcome.failure = RootFailure::kSolver;
    return outcome;
  }
  if (!probe.Fits(a, l)) {
    outcome.failure = RootFailure::kWrong;
    return outcome;
  }
  const double least = std::min(std::ldexp(static_cast<double>(l[0]), scale), 0.0);
  const double cutoff = RankCutoff(spec, std::ldexp(static_cast<double>(l[n - 1]), scale));
  // A higher rung may not make a root out of what is 0 but for rounding.
  const bool retries_singular = rung != Rung::kAsked && spec.epsilon == 0;
  const double smallest = retries_singular ? static_cast<double>(n) * std::numeric_limits<Root>::epsilon() *
                                                 std::ldexp(static_cast<double>(l[n - 1]), scale)
                                           : 0;
  outcome.shift = spec.pseudo_inverse ? 0 : spec.epsilon - least;
  // X = B^T B with row i of B = l_i^(exponent / 2) q_i: half the work of a product, and exactly symmetric.
  for (int64_t i = 0; i < n; ++i) {
    const double eigenvalue = std::ldexp(static_cast<double>(l[i]), scale);
    const double root = RootOfEigenvalue(spec, eigenvalue, least, cutoff, smallest, spec.exponent / 2);
    if (!std::isfinite(root)) {
      outcome.failure = RootFailure::kSingular;
      return outcome;
    }
    Root* const row = a + i * n;
    for (int64_t j = 0; j < n; ++j) row[j] *= static_cast<Root>(root);
  }
  *x = workspace.Work(n);
  blas::Syrk(true, n, n, Root{1}, a, n, Root{0}, *x, n);
  Mirror(n, *x);
  return outcome;
}

template <typename Real, typename Root>
RootOutcome DiagonalRoot(const RootSpec& spec, const SymmetricView<Real>& matrix, const RootWorkspace<Root>& workspace,
                         Root** x) {
  const int64_t n = matrix.n;
  RootOutcome outcome;
  outcome.kind = n == 1 ? RootKind::kScalar : RootKind::kDiagonal;
  outcome.shift = spec.pseudo_inverse ? 0 : spec.epsilon;
  Root* const a = workspace.Vector(0, n);
  double least = 0;
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < n; ++i) {
    a[i] = static_cast<Root>(matrix.data[i * n + i]) / static_cast<Root>(matrix.divisor);
    least = std::min(least, static_cast<double>(a[i]));
    largest = std::max(largest, static_cast<double>(a[i]));
  }
  const double cutoff = RankCutoff(spec, largest);
  *x = workspace.Matrix(n);
  // Without the clamp, and with it if that has no result.
  for (const double clamp : {0.0, least}) {
    std::fill(*x, *x + n * n, Root{0});
    bool finite = true;
    for (int64_t i = 0; i < n; ++i) {
      const double root = RootOfEigenvalue(spec, static_cast<double>(a[i]), clamp, cutoff, 0, spec.exponent);
      (*x)[i * n + i] = static_cast<Root>(root);
      finite = finite && std::isfinite(root);
    }
    if (finite) return outcome;
    if (!spec.pseudo_inverse) outcome.shift = spec.epsilon - least;
  }
  outcome.failure = RootFailure::kSingular;
  return outcome;
}

template RootOutcome EigenRoot<float>(const RootSpec&, Rung, EigenDriver, int64_t, int, const RootWorkspace<float>&,
                                      float**);
template RootOutcome EigenRoot<double>(const RootSpec&, Rung, EigenDriver, int64_t, int, const RootWorkspace<double>&,
                                       double**);
template RootOutcome DiagonalRoot<float, float>(const RootSpec&, const SymmetricView<float>&,
                                                const RootWorkspace<float>&, float**);
template RootOutcome DiagonalRoot<float, double>(const RootSpec&, const SymmetricView<float>&,
                                                 const RootWorkspace<double>&, double**);
template RootOutcome DiagonalRoot<double, float>(const RootSpec&, const SymmetricView<double>&,
                                                 const RootWorkspace<float>&, float**);
template RootOutcome DiagonalRoot<double, double>(const RootSpec&, const SymmetricView<double>&,
                                                  const RootWorkspace<double>&, double**);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/eigen.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/blas/rank_update.h"
#include "core/roots/probe.h"
#include "core/roots/solver.h"

namespace shampoo {

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
    outcome.failure = RootFailure::kWrongResult;
    return outcome;
  }
  const double least = static_cast<double>(l[0]);
  const double largest = static_cast<double>(l[n - 1]);
  // If epsilon is 0, each rung after kRequested fails instead of inverting an eigenvalue that is 0 up to rounding.
  const bool retries_singular = rung != Rung::kRequested && spec.epsilon == 0;
  const double smallest =
      retries_singular ? static_cast<double>(n) * std::numeric_limits<Root>::epsilon() * largest : 0;
  outcome.epsilon = spec.pseudo_inverse ? 0 : spec.epsilon;
  outcome.shift = spec.pseudo_inverse ? 0 : spec.epsilon - (spec.clamp ? std::ldexp(std::min(least, 0.0), scale) : 0.0);
  // X = B^T B, where row i of B is eigenvector i times root_of(l[i]). root_of shifts the eigenvalue and raises it to
  // the power exponent / 2. Computing B^T B takes half the work of a general product, and the result is exactly
  // symmetric.
  const RootOfEigenvalue root_of(spec, spec.epsilon, spec.exponent / 2, scale, least, largest, smallest);
  for (int64_t i = 0; i < n; ++i) {
    const double root = root_of(static_cast<double>(l[i]));
    if (!std::isfinite(root)) {
      outcome.failure = RootFailure::kSingular;
      return outcome;
    }
    Root* const row = a + i * n;
    for (int64_t j = 0; j < n; ++j) row[j] *= static_cast<Root>(root);
  }
  *x = workspace.Work(n);
  blas::Update<Root>({true, n, n, Root{1}, a, n, Root{0}, *x, n}, workspace.tiles);
  Mirror(n, *x);
  return outcome;
}

template <typename Real, typename Root>
RootOutcome DiagonalRoot(const RootSpec& spec, const SymmetricView<Real>& matrix, int scale,
                         const RootWorkspace<Root>& workspace, Root** x) {
  const int64_t n = matrix.n;
  RootOutcome outcome;
  outcome.kind = n == 1 ? RootKind::kScalar : RootKind::kDiagonal;
  outcome.epsilon = spec.pseudo_inverse ? 0 : spec.epsilon;
  outcome.shift = outcome.epsilon;
  // The elements are computed in float64 for every root dtype: float32 would save nothing, and its range is smaller.
  const auto element = [&matrix, scale](int64_t i) { return std::ldexp(matrix.At(i, i), -scale); };
  double least = 0;
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < n; ++i) {
    least = std::min(least, element(i));
    largest = std::max(largest, element(i));
  }
  *x = workspace.Matrix(n);
  // The first iteration of this loop uses no clamp. The second one runs if the first result is not finite, and uses
  // the clamp if spec.clamp is true.
  for (const double clamp : {0.0, least}) {
    std::fill(*x, *x + n * n, Root{0});
    const RootOfEigenvalue root_of(spec, spec.epsilon, spec.exponent, scale, clamp, largest, 0);
    bool finite = true;
    for (int64_t i = 0; i < n; ++i) {
      const double root = root_of(element(i));
      (*x)[i * n + i] = static_cast<Root>(root);
      finite = finite && std::isfinite(root);
    }
    if (finite) return outcome;
    if (!spec.pseudo_inverse) outcome.shift = spec.epsilon - std::ldexp(least, scale);
  }
  outcome.failure = RootFailure::kSingular;
  return outcome;
}

template RootOutcome EigenRoot<float>(const RootSpec&, Rung, EigenDriver, int64_t, int, const RootWorkspace<float>&,
                                      float**);
template RootOutcome EigenRoot<double>(const RootSpec&, Rung, EigenDriver, int64_t, int, const RootWorkspace<double>&,
                                       double**);
template RootOutcome DiagonalRoot<float, float>(const RootSpec&, const SymmetricView<float>&, int,
                                                const RootWorkspace<float>&, float**);
template RootOutcome DiagonalRoot<float, double>(const RootSpec&, const SymmetricView<float>&, int,
                                                 const RootWorkspace<double>&, double**);
template RootOutcome DiagonalRoot<double, float>(const RootSpec&, const SymmetricView<double>&, int,
                                                 const RootWorkspace<float>&, float**);
template RootOutcome DiagonalRoot<double, double>(const RootSpec&, const SymmetricView<double>&, int,
                                                  const RootWorkspace<double>&, double**);

}  // namespace shampoo

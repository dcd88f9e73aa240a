// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/ladder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/roots/eigen.h"
#include "core/roots/probe.h"
#include "core/roots/resolvent_root.h"
#include "core/roots/solver.h"
#include "core/rules/cans_scalars.h"

namespace shampoo {
namespace {

template <typename Root>
double LargestDistanceFromIdentity(int64_t n, const Root* a) {
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const double distance = std::fabs(static_cast<double>(a[i * n + j] - (i == j ? Root{1} : Root{0})));
      if (std::isnan(distance)) return distance;
      largest = std::max(largest, distance);
    }
  }
  return largest;
}

// The result of one rung. On success the root is `factor` times x, which is in the workspace.
template <typename Root>
struct Attempt {
  RootOutcome outcome;
  Root* x = nullptr;
  double factor = 1;
};

template <typename Real, typename Root>
Attempt<Root> TryEigen(const RootSpec& spec, Rung rung, EigenDriver driver, const SymmetricView<Real>& matrix,
                       const MatrixFacts& facts, const RootWorkspace<Root>& workspace) {
  Attempt<Root> attempt;
  const bool is_relative = spec.relative_epsilon > 0;
  const int scale = RootScale(spec, facts.largest);
  if (is_relative) attempt.factor = RootFactor(scale, spec.exponent);
  if (matrix.n == 1 || (spec.may_be_diagonal && facts.diagonal)) {
    attempt.outcome = DiagonalRoot(spec, matrix, is_relative ? scale : 0, workspace, &attempt.x);
    return attempt;
  }
  LoadLower(matrix, scale, workspace.Matrix(matrix.n));
  if constexpr (std::is_same_v<Root, float>) {
    bool suitable = false;
    if (UsesResolvents(spec, rung, matrix.n)) {
      attempt.outcome = ResolventRoot(spec, rung, matrix.n, scale, workspace, &attempt.x, &suitable);
    }
    if (suitable) {
      attempt.factor = RootFactor(scale, spec.exponent);
      return attempt;
    }
  }
  attempt.outcome = EigenRoot(spec, rung, driver, matrix.n, scale, workspace, &attempt.x);
  return attempt;
}

// Returns X^power, in one of the matrices of the workspace.
template <typename Root>
Root* RaiseRoot(int64_t n, int64_t power, CoupledResult<Root>* result) {
  if (power == 1) return result->x;
  Root* const x = result->x;
  Root* t = result->spare[0];
  std::copy(x, x + n * n, t);
  Root* y = x;
  MultiplyByPower(n, power - 1, &t, &y, &result->spare[1]);
  Mirror(n, y);
  return y;
}

template <typename Real, typename Root>
Attempt<Root> TryCoupled(const RootSpec& spec, Rung rung, const SymmetricView<Real>& matrix, const MatrixFacts& facts,
                         const RootWorkspace<Root>& workspace) {
  const int64_t n = matrix.n;
  const bool higher = spec.method == RootMethod::kHigherOrder;
  const int scale = RootScale(spec, facts.largest);
  Attempt<Root> attempt;
  RootOutcome& outcome = attempt.outcome;
  outcome.kind = higher ? RootKind::kHigherOrder : RootKind::kNewton;
  LoadLower(matrix, scale, workspace.Matrix(0, n));
  Mirror(n, workspace.Matrix(0, n));
  CoupledResult<Root> result = SolveCoupled(spec, rung, n, scale, workspace);
  outcome.iterations = result.iterations;
  outcome.converged = result.converged;
  outcome.shift = std::ldexp(result.shift, scale);
  outcome.epsilon = outcome.shift;
  attempt.factor = RootFactor(scale, spec.exponent);
  const bool accepted = result.converged == 0 && spec.accept_unconverged && std::isfinite(result.error);
  if (!accepted) {
    // Load the matrix again, because the iteration has overwritten the copy in the workspace.
    Root* const b = result.spare[0];
    LoadLower(matrix, scale, b);
    for (int64_t i = 0; i < n; ++i) b[i * n + i] += static_cast<Root>(result.shift);
    Mirror(n, b);
    double residual = 0;
    if (higher) {
      std::copy(result.x, result.x + n * n, result.spare[1]);
      MultiplyByPower(n, spec.numerator, &result.spare[1], &result.spare[0], &result.spare[2]);
      residual = LargestDistanceFromIdentity(n, result.spare[0]);
    } else {
      residual = RootResidual(n, b, result.x, spec.numerator / spec.denominator, workspace);
    }
    if (!(residual <= kLargestResidual)) {
      outcome.failure = result.converged == 1 ? RootFailure::kWrongResult : RootFailure::kNotConverged;
      return attempt;
    }
  }
  attempt.x = RaiseRoot(n, higher ? spec.denominator : 1, &result);
  return attempt;
}

template <typename Real>
Attempt<double> TryCans(const RootSpec& spec, Rung rung, const SymmetricView<Real>& matrix, const MatrixFacts& facts,
                        const RootWorkspace<double>& workspace) {
  const int64_t n = matrix.n;
  const int scale = RootScale(spec, facts.largest);
  Attempt<double> attempt;
  attempt.outcome.kind = RootKind::kCans;
  LoadLower(matrix, scale, workspace.Matrix(0, n));
  Mirror(n, workspace.Matrix(0, n));
  const CansResult result = SolveCans(spec, rung, n, scale, workspace);
  attempt.outcome.iterations = result.iterations;
  attempt.outcome.shift = std::ldexp(result.shift, scale);
  attempt.outcome.epsilon = attempt.outcome.shift;
  attempt.factor = RootFactor(scale, spec.exponent);
  attempt.x = result.x;
  // Load the matrix again, because the iteration has overwritten the copy in the workspace.
  double* const b = result.spare;
  LoadLower(matrix, scale, b);
  for (int64_t i = 0; i < n; ++i) b[i * n + i] += result.shift;
  Mirror(n, b);
  if (!(CansResidual(spec, n, b, result.x, workspace) <= LargestCansResidual(spec))) {
    attempt.outcome.failure = RootFailure::kNotConverged;
  }
  return attempt;
}

// Returns the spec of an eigendecomposition that replaces an iteration. If the iteration derived the shift of the
// diagonal from the matrix, the eigendecomposition uses the same shift.
RootSpec EigenSpecOf(const RootSpec& spec, double shift) {
  RootSpec eigen = spec;
  eigen.method = RootMethod::kEigen;
  eigen.may_be_diagonal = false;
  const bool is_derived = spec.method == RootMethod::kHigherOrder && spec.relative_epsilon == 0;
  if (is_derived && std::isfinite(shift)) eigen.epsilon = shift;
  return eigen;
}

template <typename Real, typename Root>
bool WriteRoot(int64_t n, const Attempt<Root>& attempt, double limit, const SymmetricTarget<Real>& x) {
  const double factor = attempt.factor;
  double largest = 0;
  bool nan = false;
  for (int64_t i = 0; i < n * n; ++i) {
    const double magnitude = std::fabs(static_cast<double>(attempt.x[i]) * factor);
    largest = magnitude > largest ? magnitude : largest;
    nan |= std::isnan(magnitude);
  }
  if (nan || !(largest <= limit)) return false;
  for (int64_t i = 0; i < n; ++i) {
    const Root* const from = attempt.x + i * n;
    Real* const to = x.data + i * x.ld;
    for (int64_t j = x.full ? 0 : i; j < n; ++j) to[j] = static_cast<Real>(static_cast<double>(from[j]) * factor);
  }
  return true;
}

// Writes the identity, which replaces the root of a negligible factor matrix (IsNegligible). With this root, a gradient
// that is too small to change the factor matrix keeps its direction.
template <typename Real>
RootOutcome WriteIdentity(const SymmetricTarget<Real>& x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    Real* const row = x.data + i * x.ld;
    for (int64_t j = x.full ? 0 : i; j < n; ++j) row[j] = i == j ? Real{1} : Real{0};
  }
  RootOutcome outcome;
  outcome.kind = n == 1 ? RootKind::kScalar : RootKind::kDiagonal;
  outcome.diagonal_input = true;
  return outcome;
}

template <typename Real, typename Root>
Attempt<Root> TryCansOrDiagonal(const RootSpec& spec, Rung rung, const SymmetricView<Real>& matrix,
                                const MatrixFacts& facts, const RootWorkspace<Root>& workspace) {
  if constexpr (std::is_same_v<Root, double>) {
    if (!(spec.may_be_diagonal && facts.diagonal)) return TryCans(spec, rung, matrix, facts, workspace);
  }
  // The matrix is diagonal. This function is never called with Root = float, because method cans always computes in
  // float64 (DtypeOfMethod).
  RootSpec eigen = spec;
  eigen.method = RootMethod::kEigen;
  return TryEigen(eigen, rung, EigenDriver::kDivideAndConquer, matrix, facts, workspace);
}

RootSpec WithEpsilonOf(const RootSpec& spec, const MatrixFacts& facts) {
  RootSpec resolved = spec;
  resolved.epsilon = ResolvedEpsilon(spec, facts.mean_eigenvalue);
  return resolved;
}

template <typename Real, typename Root>
RootOutcome RunRung(const RootSpec& spec, Rung rung, const SymmetricView<Real>& matrix, const MatrixFacts& facts,
                    const RootWorkspace<Root>& workspace, double limit, const SymmetricTarget<Real>& x) {
  const EigenDriver driver = rung == Rung::kEigenRrr  ? EigenDriver::kRelativelyRobust
                             : rung == Rung::kEigenQr ? EigenDriver::kImplicitQr
                                                      : EigenDriver::kDivideAndConquer;
  Attempt<Root> attempt;
  if (spec.method == RootMethod::kCans) {
    attempt = TryCansOrDiagonal(spec, rung, matrix, facts, workspace);
  } else {
    attempt = spec.method == RootMethod::kEigen ? TryEigen(spec, rung, driver, matrix, facts, workspace)
                                                : TryCoupled(spec, rung, matrix, facts, workspace);
  }
  attempt.outcome.rung = rung;
  if (attempt.outcome.ok() && !WriteRoot(matrix.n, attempt, limit, x))
    attempt.outcome.failure = RootFailure::kOutOfRange;
  return attempt.outcome;
}

// Tries the rungs after kRequested. first: the outcome of kRequested. skips_float64: whether rung kFloat64 is skipped,
// because it would repeat the computation of kRequested.
template <typename Real>
RootOutcome ClimbLadder(const RootSpec& spec, const SymmetricView<Real>& matrix, const MatrixFacts& facts,
                        const RootOutcome& first, bool skips_float64, const RootWorkspace<double>& workspace,
                        double limit, const SymmetricTarget<Real>& x) {
  RootOutcome last = first;
  double shift = first.shift;
  int used = 0;
  for (const Rung rung : {Rung::kFloat64, Rung::kEigen, Rung::kEigenRrr, Rung::kEigenQr}) {
    if (rung == Rung::kFloat64 && skips_float64) continue;
    if (rung == Rung::kEigen && spec.method == RootMethod::kEigen) continue;
    const RootSpec tried =
        rung == Rung::kFloat64 || spec.method == RootMethod::kEigen ? spec : EigenSpecOf(spec, shift);
    last = RunRung(tried, rung, matrix, facts, workspace, limit, x);
    ++used;
    if (last.ok()) break;
    // The matrix is diagonal, and another driver would compute the same root.
    if (last.kind == RootKind::kScalar || last.kind == RootKind::kDiagonal) break;
    if (std::isnan(shift)) shift = last.shift;
  }
  last.diagonal_input = facts.diagonal;
  last.first_failure = first.failure;
  last.rungs_used = used;
  return last;
}

}  // namespace

template <typename Real>
RootOutcome ComputeRoot(const RootSpec& requested, const SymmetricView<Real>& matrix, const RootMemory& memory,
                        double limit, const SymmetricTarget<Real>& x) {
  const MatrixFacts facts = Inspect(matrix);
  RootOutcome first;
  first.failure = facts.failure;
  first.diagonal_input = facts.diagonal;
  if (!first.ok()) return first;
  if (requested.relative_epsilon > 0 && facts.negligible) return WriteIdentity(x, matrix.n);
  const RootSpec spec = WithEpsilonOf(requested, facts);
  const bool wide = memory.root_dtype == Dtype::kF64;
  const RootWorkspace<double> own_wide{static_cast<double*>(memory.own), memory.own_ints, memory.tiles};
  if (wide) {
    first = RunRung(spec, Rung::kRequested, matrix, facts, own_wide, limit, x);
  } else {
    const RootWorkspace<float> own{static_cast<float*>(memory.own), memory.own_ints, memory.tiles};
    first = RunRung(spec, Rung::kRequested, matrix, facts, own, limit, x);
  }
  first.diagonal_input = facts.diagonal;
  if (first.ok()) return first;

  std::unique_lock<std::mutex> lock;
  if (!wide) lock = std::unique_lock<std::mutex>(memory.recovery->mutex);
  const RootWorkspace<double>& recovery = wide ? own_wide : memory.recovery->workspace;
  return ClimbLadder(spec, matrix, facts, first, wide, recovery, limit, x);
}

template <typename Real>
RootOutcome RecoverRoot(const RootSpec& requested, const SymmetricView<Real>& matrix, const RootOutcome& first,
                        const RootWorkspace<double>& workspace, double limit, const SymmetricTarget<Real>& x) {
  const MatrixFacts facts = Inspect(matrix);
  if (facts.failure != RootFailure::kNone) return first;
  const RootSpec spec = WithEpsilonOf(requested, facts);
  RootOutcome failed = first;
  failed.shift = std::numeric_limits<double>::quiet_NaN();
  // Method cans on the host would repeat the computation of the device.
  const bool repeats = spec.method == RootMethod::kCans;
  return ClimbLadder(spec, matrix, facts, failed, repeats, workspace, limit, x);
}

template RootOutcome ComputeRoot<float>(const RootSpec&, const SymmetricView<float>&, const RootMemory&, double,
                                        const SymmetricTarget<float>&);
template RootOutcome ComputeRoot<double>(const RootSpec&, const SymmetricView<double>&, const RootMemory&, double,
                                         const SymmetricTarget<double>&);
template RootOutcome RecoverRoot<float>(const RootSpec&, const SymmetricView<float>&, const RootOutcome&,
                                        const RootWorkspace<double>&, double, const SymmetricTarget<float>&);
template RootOutcome RecoverRoot<double>(const RootSpec&, const SymmetricView<double>&, const RootOutcome&,
                                         const RootWorkspace<double>&, double, const SymmetricTarget<double>&);

}  // namespace shampoo

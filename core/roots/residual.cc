// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/residual.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "core/base/convert.h"
#include "core/roots/eigen.h"
#include "core/rules/eigenvalue.h"

namespace shampoo {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename Real>
RootOutcome Float64Root(const RootSpec& spec, const SymmetricView<Real>& matrix, const RootWorkspace<double>& workspace,
                        double** x) {
  const MatrixFacts facts = Inspect(matrix);
  if (facts.failure != RootFailure::kNone) return {.failure = facts.failure};
  if (matrix.n == 1 || (spec.may_be_diagonal && facts.diagonal)) return DiagonalRoot(spec, matrix, 0, workspace, x);
  const int scale = ScaleExponent(facts.largest, spec.epsilon);
  LoadLower(matrix, scale, workspace.Matrix(matrix.n));
  return EigenRoot(spec, Rung::kRequested, EigenDriver::kDivideAndConquer, matrix.n, scale, workspace, x);
}

}  // namespace

template <typename Real>
const double* RaiseSymmetric(const SymmetricView<Real>& x, double power, double rank_rtol,
                             const RootWorkspace<double>& workspace) {
  RootSpec spec;
  spec.exponent = power;
  spec.may_be_diagonal = true;
  spec.clamp = false;
  spec.pseudo_inverse = rank_rtol >= 0;
  spec.rank_rtol = rank_rtol;
  double* raised = nullptr;
  const RootOutcome outcome = Float64Root(spec, x, workspace, &raised);
  return outcome.ok() && AllFinite(raised, x.n * x.n) ? raised : nullptr;
}

template <typename Real>
RootResiduals MeasureRoot(const RootSpec& spec, const RootOutcome& outcome, const SymmetricView<Real>& matrix,
                          const SymmetricView<Real>& x, const RootWorkspace<double>& workspace) {
  const int64_t n = matrix.n;
  RootResiduals measured;
  // If relative_epsilon is above 0, the root of a negligible matrix is the identity by definition, so the error is 0.
  if (spec.relative_epsilon > 0 && Inspect(matrix).negligible) return measured;
  RootSpec exact = spec;
  exact.method = RootMethod::kEigen;
  exact.id = -1;
  exact.may_be_diagonal = outcome.kind == RootKind::kDiagonal;
  // With method `higher_order`, or if relative_epsilon is above 0, the number that was added to the eigenvalues may
  // depend on the matrix. `outcome` contains this number.
  if (spec.method == RootMethod::kHigherOrder || spec.relative_epsilon > 0) exact.epsilon = outcome.epsilon;
  exact.relative_epsilon = 0;
  // The iterative methods ignore RootSpec::clamp.
  exact.clamp =
      outcome.kind != RootKind::kNewton && outcome.kind != RootKind::kHigherOrder && outcome.kind != RootKind::kCans;
  double* root = nullptr;
  if (Float64Root(exact, matrix, workspace, &root).ok()) {
    double difference = 0;
    double largest = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        difference = std::max(difference, std::fabs(x.At(i, j) - root[i * n + j]));
        largest = std::max(largest, std::fabs(root[i * n + j]));
      }
    }
    measured.error = largest > 0 ? difference / largest : difference;
  } else {
    measured.error = kInfinity;
  }
  if (spec.exponent == 0) return measured;
  const double* const raised = RaiseSymmetric(
      x, 1 / spec.exponent, spec.pseudo_inverse ? ZeroEigenvalueTolerance(n, DtypeOf<Real>()) : -1, workspace);
  if (raised == nullptr) {
    measured.residual = kInfinity;
    return measured;
  }
  double difference = 0;
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      const double a = matrix.At(i, j) + (i == j ? outcome.shift : 0);
      difference = std::max(difference, std::fabs(raised[i * n + j] - a));
      largest = std::max(largest, std::fabs(a));
    }
  }
  measured.residual = largest > 0 ? difference / largest : difference;
  return measured;
}

template <typename Real>
RootResiduals MeasureRoot(const RootSpec& spec, const RootOutcome& outcome, const SymmetricView<Real>& matrix,
                          const SymmetricView<Real>& x, const RootMemory& memory) {
  if (memory.root_dtype == Dtype::kF64) {
    return MeasureRoot(spec, outcome, matrix, x, {static_cast<double*>(memory.own), memory.own_ints});
  }
  std::lock_guard<std::mutex> lock(memory.recovery->mutex);
  return MeasureRoot(spec, outcome, matrix, x, memory.recovery->workspace);
}

template const double* RaiseSymmetric<float>(const SymmetricView<float>&, double, double, const RootWorkspace<double>&);
template const double* RaiseSymmetric<double>(const SymmetricView<double>&, double, double,
                                              const RootWorkspace<double>&);
template RootResiduals MeasureRoot<float>(const RootSpec&, const RootOutcome&, const SymmetricView<float>&,
                                          const SymmetricView<float>&, const RootWorkspace<double>&);
template RootResiduals MeasureRoot<double>(const RootSpec&, const RootOutcome&, const SymmetricView<double>&,
                                           const SymmetricView<double>&, const RootWorkspace<double>&);
template RootResiduals MeasureRoot<float>(const RootSpec&, const RootOutcome&, const SymmetricView<float>&,
                                          const SymmetricView<float>&, const RootMemory&);
template RootResiduals MeasureRoot<double>(const RootSpec&, const RootOutcome&, const SymmetricView<double>&,
                                           const SymmetricView<double>&, const RootMemory&);

}  // namespace shampoo

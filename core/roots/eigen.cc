// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/eigen.h"

#include <algorithm>
#include <cmath>

#include "core/blas/blas.h"

namespace shampoo {
namespace {

template <typename Real>
bool AllFinite(const Real* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(values[i])) return false;
  }
  return true;
}

// X = diag(l^exponent), l = a_ii + epsilon - shift.
template <typename Real>
bool DiagonalRoot(int64_t n, const Real* a, double epsilon, double shift, double exponent, Real* x) {
  std::fill(x, x + n * n, Real{0});
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) {
    const double shifted = static_cast<double>(a[i * n + i]) - shift + epsilon;
    x[i * n + i] = static_cast<Real>(std::pow(shifted, exponent));
    finite = finite && (shifted > 0 || exponent >= 0) && std::isfinite(x[i * n + i]);
  }
  return finite;
}

template <typename Real>
RootOutcome DiagonalInverseRoot(int64_t n, double epsilon, double exponent, const Real* a, Real* x) {
  RootOutcome outcome{n == 1 ? RootMethod::kScalar : RootMethod::kDiagonal};
  if (DiagonalRoot(n, a, epsilon, 0.0, exponent, x)) return outcome;
  double least = 0;
  for (int64_t i = 0; i < n; ++i) least = std::min(least, static_cast<double>(a[i * n + i]));
  if (!DiagonalRoot(n, a, epsilon, least, exponent, x)) outcome.failure = RootFailure::kNotFinite;
  return outcome;
}

}  // namespace

const char* FailureText(RootFailure failure) {
  switch (failure) {
    case RootFailure::kNone:
      return "none";
    case RootFailure::kNanInput:
      return "it contains NaN";
    case RootFailure::kInfInput:
      return "it contains an infinity";
    case RootFailure::kSolver:
      return "the eigensolver did not converge";
    case RootFailure::kNotFinite:
      return "its inverse root is not finite in this precision: it is singular, or nearly so";
  }
  return "unknown";
}

template <typename Real>
RootFailure InspectMatrix(int64_t n, const Real* a, bool* diagonal) {
  bool any_off_diagonal = false;
  bool any_infinite = false;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      const Real value = a[i * n + j];
      if (std::isnan(value)) return RootFailure::kNanInput;
      any_infinite = any_infinite || std::isinf(value);
      any_off_diagonal = any_off_diagonal || (i != j && value != 0);
    }
  }
  *diagonal = !any_off_diagonal;
  return any_infinite ? RootFailure::kInfInput : RootFailure::kNone;
}

template <typename Real>
RootOutcome EigenInverseRoot(int64_t n, bool diagonal, double epsilon, double exponent,
                             const RootWorkspace<Real>& workspace, Real* x) {
  Real* const a = workspace.a;
  if (n == 1 || diagonal) return DiagonalInverseRoot(n, epsilon, exponent, a, x);

  RootOutcome outcome{RootMethod::kEigen};
  Real* const l = workspace.eigenvalues;
  outcome.solver_info = blas::Syevd(n, a, l, workspace.work, workspace.int_work);
  if (outcome.solver_info != 0 || !AllFinite(l, n)) {
    outcome.failure = RootFailure::kSolver;
    return outcome;
  }
  // X = B^T B with row i of B = l_i^(exponent / 2) q_i: half the work of a product, and exactly symmetric.
  // In this order: next to a large negative eigenvalue epsilon would be lost.
  const double least = std::min(static_cast<double>(l[0]), 0.0);
  for (int64_t i = 0; i < n; ++i) {
    const Real scale = static_cast<Real>(std::pow((static_cast<double>(l[i]) - least) + epsilon, exponent / 2));
    Real* const row = a + i * n;
    for (int64_t j = 0; j < n; ++j) row[j] *= scale;
  }
  blas::Syrk(true, n, n, Real{1}, a, n, Real{0}, x, n);
  for (int64_t i = 0; i < n; ++i) {
    if (!AllFinite(x + i * n, i + 1)) {
      outcome.failure = RootFailure::kNotFinite;
      return outcome;
    }
    for (int64_t j = 0; j < i; ++j) x[j * n + i] = x[i * n + j];
  }
  return outcome;
}

template RootFailure InspectMatrix<float>(int64_t, const float*, bool*);
template RootFailure InspectMatrix<double>(int64_t, const double*, bool*);
template RootOutcome EigenInverseRoot<float>(int64_t, bool, double, double, const RootWorkspace<float>&, float*);
template RootOutcome EigenInverseRoot<double>(int64_t, bool, double, double, const RootWorkspace<double>&, double*);

}  // namespace shampoo

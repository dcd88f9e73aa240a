// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/inverse_root.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/blas/blas.h"
#include "core/blas/scratch.h"
#include "core/plan/layout.h"

namespace shampoo {
namespace {

// Workspace for matrices of n x n that frees itself.
template <typename Real>
class OwnedWorkspace {
 public:
  explicit OwnedWorkspace(int64_t n)
      : a_(Count(n * n)),
        eigenvalues_(Count(n)),
        work_(Count(blas::SyevdWork(n))),
        int_work_(Count(blas::SyevdIntWork(n))) {}
  RootWorkspace<Real> view() { return {a_.data(), eigenvalues_.data(), work_.data(), int_work_.data()}; }

 private:
  static size_t Count(int64_t n) { return static_cast<size_t>(n); }
  std::vector<Real> a_;
  std::vector<Real> eigenvalues_;
  std::vector<Real> work_;
  std::vector<int32_t> int_work_;
};

// max |B X^power - I| in float64, B = A + shift I. NaN where X has no such power.
double Residual(int64_t n, const std::vector<double>& b, std::vector<double> x, double power) {
  OwnedWorkspace<double> workspace(n);
  std::vector<double> raised(x.size());
  bool diagonal = false;
  if (InspectMatrix(n, x.data(), &diagonal) != RootFailure::kNone) return std::numeric_limits<double>::quiet_NaN();
  std::copy(x.begin(), x.end(), workspace.view().a);
  const RootOutcome outcome = EigenInverseRoot<double>(n, diagonal, 0.0, power, workspace.view(), raised.data());
  if (!outcome.ok()) return std::numeric_limits<double>::quiet_NaN();
  blas::Gemm(n, n, n, b.data(), n, raised.data(), n, x.data(), n);
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      largest = std::max(largest, std::fabs(x[static_cast<size_t>(i * n + j)] - (i == j ? 1.0 : 0.0)));
    }
  }
  return largest;
}

// The clamp of method eigen belongs to the matrix whose root X is.
double ShiftOf(const RootRequest& request, RootMethod method, double least_eigenvalue) {
  return method == RootMethod::kEigen ? request.epsilon - std::min(least_eigenvalue, 0.0) : request.epsilon;
}

}  // namespace

template <typename Real>
Status InverseRoot(const RootRequest& request, const Real* a, Real* x, RootResult* result) {
  const int64_t n = request.n;
  const auto count = static_cast<size_t>(n * n);
  SHAMPOO_RETURN_IF_ERROR(blas::CheckThreads());
  blas::Scratch scratch;
  SHAMPOO_RETURN_IF_ERROR(blas::Scratch::Create(0, &scratch));
  blas::ScratchUse use(&scratch);

  OwnedWorkspace<Real> workspace(n);
  std::copy(a, a + count, workspace.view().a);
  bool diagonal = false;
  RootOutcome outcome;
  outcome.failure = InspectMatrix(n, a, &diagonal);
  std::vector<Real> root(count);
  const double exponent =
      -request.exponent_multiplier * static_cast<double>(request.denominator) / static_cast<double>(request.numerator);
  if (outcome.ok()) outcome = EigenInverseRoot(n, diagonal, request.epsilon, exponent, workspace.view(), root.data());
  if (!outcome.ok()) {
    return Numeric("the inverse root of the matrix a (", n, " x ", n,
                   ") could not be computed: ", FailureText(outcome.failure),
                   "; look at how it was made, or use a larger epsilon");
  }
  const bool solved = outcome.method == RootMethod::kEigen;
  const double shift =
      ShiftOf(request, outcome.method, solved ? static_cast<double>(workspace.view().eigenvalues[0]) : 0.0);
  result->method = outcome.method;
  result->residual = 0;
  if (exponent != 0) {
    std::vector<double> b(count);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const int64_t kept = i >= j ? i * n + j : j * n + i;
        b[static_cast<size_t>(i * n + j)] = static_cast<double>(a[kept]) + (i == j ? shift : 0.0);
      }
    }
    result->residual = Residual(n, b, std::vector<double>(root.begin(), root.end()), -1 / exponent);
  }
  std::copy(root.begin(), root.end(), x);
  return {};
}

template Status InverseRoot<float>(const RootRequest&, const float*, float*, RootResult*);
template Status InverseRoot<double>(const RootRequest&, const double*, double*, RootResult*);

}  // namespace shampoo

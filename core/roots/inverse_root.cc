// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/inverse_root.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/convert.h"
#include "core/blas/scratch.h"
#include "core/roots/ladder.h"
#include "core/roots/residual.h"

namespace shampoo {
namespace {

// A workspace that owns its memory, for n x n matrices.
template <typename Root>
class OwnedWorkspace {
 public:
  OwnedWorkspace(RootMethod method, int64_t n)
      : memory_(static_cast<size_t>(RootWorkspace<Root>::Elements(method, n))),
        ints_(static_cast<size_t>(RootWorkspace<Root>::Ints(n))) {}
  RootWorkspace<Root> view() { return {memory_.data(), ints_.data()}; }

 private:
  std::vector<Root> memory_;
  std::vector<int32_t> ints_;
};

// Returns max |B X^power - E| with B = A + shift I and power = -1 / spec.exponent. E is the identity I or, for a
// pseudo-inverse, the projector on the span of the eigenvectors of X whose eigenvalues do not count as 0.
template <typename Real>
double Residual(const RootSpec& spec, double shift, int64_t n, const Real* a, const std::vector<Real>& x,
                const RootWorkspace<double>& workspace) {
  const double power = -1 / spec.exponent;
  const double dropped = ZeroEigenvalueTolerance(n, DtypeOf<Real>());
  const auto count = static_cast<size_t>(n * n);
  // X^power may be out of range even if B X^power is not. Therefore X is scaled so that its largest element is near 1,
  // and B is scaled so that B X^power does not change.
  const int scale = ScaleExponent(Inspect(SymmetricView<Real>{n, x.data()}).largest, 0);
  std::vector<double> root(count);
  LoadLower(SymmetricView<Real>{n, x.data()}, scale, root.data());
  const double back = std::exp2(static_cast<double>(scale) * power / 2);
  std::vector<double> b(count);
  std::vector<double> product(count);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t kept = i >= j ? i * n + j : j * n + i;
      b[static_cast<size_t>(i * n + j)] = (static_cast<double>(a[kept]) + (i == j ? shift : 0.0)) * back * back;
    }
  }
  constexpr double kMaxProducts = 64;
  if (power == std::floor(power) && power > 0 && power <= kMaxProducts) {
    // An integer power is computed by products, because an eigendecomposition would add rounding errors.
    Mirror(n, root.data());
    product = b;
    for (int k = 0; k < static_cast<int>(power); ++k) {
      b.swap(product);
      blas::Gemm(n, n, n, b.data(), n, root.data(), n, product.data(), n);
    }
  } else {
    const double* const raised =
        RaiseSymmetric(SymmetricView<double>{n, root.data()}, power, spec.pseudo_inverse ? dropped : -1, workspace);
    if (raised == nullptr) return std::numeric_limits<double>::quiet_NaN();
    blas::Gemm(n, n, n, b.data(), n, raised, n, product.data(), n);
  }
  const double* projector = nullptr;
  if (spec.pseudo_inverse) {
    projector = RaiseSymmetric(SymmetricView<double>{n, root.data()}, 0.0, dropped, workspace);
    if (projector == nullptr) return std::numeric_limits<double>::quiet_NaN();
  }
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const double expected = projector != nullptr ? projector[i * n + j] : i == j ? 1.0 : 0.0;
      const double distance = std::fabs(product[static_cast<size_t>(i * n + j)] - expected);
      if (std::isnan(distance)) return distance;
      largest = std::max(largest, distance);
    }
  }
  return largest;
}

}  // namespace

template <typename Real>
Status InverseRoot(const Settings& settings, int64_t numerator, int64_t denominator, int64_t n, const Real* a, Real* x,
                   RootResult* result) {
  SHAMPOO_RETURN_IF_ERROR(blas::CheckThreads());
  const RootMethod method = MethodOfRoot(settings, numerator, denominator, n);
  const Dtype root_dtype = DtypeOfMethod(method, settings.root_dtype.value_or(DtypeOf<Real>()));
  RootSpec spec = MakeRootSpec(settings, numerator, denominator, n, root_dtype);
  spec.accept_unconverged = true;
  spec.may_be_diagonal = true;
  spec.id = 0;
  if (spec.method == RootMethod::kNewton && numerator % denominator != 0) {
    return Invalid("root_num is ", numerator, " and root_den is ", denominator,
                   ": root_method=newton requires that root_num is a multiple of root_den; set "
                   "root_method=higher_order or root_method=eigen");
  }
  blas::Scratch scratch;
  SHAMPOO_RETURN_IF_ERROR(blas::Scratch::Create({}, &scratch));
  blas::ScratchUse use(&scratch);

  RecoveryMemory recovery;
  OwnedWorkspace<double> wide(spec.method, n);
  recovery.workspace = wide.view();
  const bool narrow = root_dtype == Dtype::kF32;
  OwnedWorkspace<float> own(spec.method, narrow ? n : 0);
  const RootMemory memory{root_dtype, narrow ? static_cast<void*>(own.view().memory) : wide.view().memory,
                          narrow ? own.view().ints : wide.view().ints, &recovery};
  std::vector<Real> root(static_cast<size_t>(n * n));
  const SymmetricView<Real> matrix{n, a};
  result->outcome =
      ComputeRoot(spec, matrix, memory, LargestFinite(DtypeOf<Real>()), SymmetricTarget<Real>::Full(n, root.data()));
  const RootOutcome& outcome = result->outcome;
  if (!outcome.ok()) {
    return Numeric("the inverse root of the matrix a (", n, " x ", n,
                   ") could not be computed: ", FailureText(outcome.failure), "; check the matrix, or use a larger ",
                   settings.EpsilonKey());
  }
  result->residual = spec.exponent == 0 ? 0 : Residual(spec, outcome.shift, n, a, root, wide.view());
  std::copy(root.begin(), root.end(), x);
  return {};
}

template Status InverseRoot<float>(const Settings&, int64_t, int64_t, int64_t, const float*, float*, RootResult*);
template Status InverseRoot<double>(const Settings&, int64_t, int64_t, int64_t, const double*, double*, RootResult*);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/roots/eigenbasis.h"
#include "core/roots/matrix.h"
#include "tests/core/symmetric_matrices.h"

namespace shampoo {
namespace {

template <typename Real>
struct Computed {
  BasisOutcome outcome;
  std::vector<Real> basis;
  std::vector<int32_t> order;
};

// Computes a basis from the lower triangle of a matrix. The elements above the diagonal are NaN, because ComputeBasis()
// must not read them. Checks that the memory after the workspaces is unchanged.
template <typename Real>
Computed<Real> Compute(const BasisSpec& spec, int64_t n, const Doubles& matrix, const std::vector<Real>* previous,
                       double divisor = 1) {
  const Real nan = std::numeric_limits<Real>::quiet_NaN();
  std::vector<Real> lower(At(n * n), nan);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) lower[At(i * n + j)] = static_cast<Real>(matrix[At(i * n + j)]);
  }
  std::vector<Real> memory(At(BasisMemory<Real>::Elements(n) + 8), nan);
  std::vector<int32_t> ints(At(BasisMemory<Real>::Ints(n) + 8), -77);
  std::vector<double> wide(At(BasisMemory<double>::Elements(n)));
  std::vector<int32_t> wide_ints(At(BasisMemory<double>::Ints(n)));
  RecoveryMemory recovery;
  recovery.workspace = {wide.data(), wide_ints.data()};
  const BasisMemory<Real> own{{memory.data(), ints.data()}, &recovery};
  Computed<Real> computed;
  computed.outcome =
      ComputeBasis<Real>(spec, {n, lower.data(), divisor, n}, previous != nullptr ? previous->data() : nullptr, own);
  computed.basis.assign(own.Basis(n), own.Basis(n) + n * n);
  computed.order.assign(own.Order(), own.Order() + n);
  for (size_t i = 0; i < 8; ++i) {
    CHECK(std::isnan(memory[memory.size() - 8 + i]));
    CHECK(ints[ints.size() - 8 + i] == -77);
  }
  return computed;
}

// Returns Q^T A Q, where A is `a` and Q is `basis`.
template <typename Real>
Doubles Rotated(int64_t n, const Doubles& a, const std::vector<Real>& basis) {
  const Doubles q(basis.begin(), basis.end());
  Doubles aq(At(n * n)), rotated(At(n * n));
  blas::Gemm(n, n, n, a.data(), n, q.data(), n, aq.data(), n);
  blas::Gemm(blas::Product<double>{true, false, 1, 0}, n, n, n, q.data(), n, aq.data(), n, rotated.data(), n);
  return rotated;
}

template <typename Real>
double Orthogonality(int64_t n, const std::vector<Real>& basis) {
  const Doubles identity = Identity<double>(n);
  return LargestDifference(Rotated(n, identity, basis), identity);
}

double OffDiagonal(int64_t n, Doubles a) {
  for (int64_t i = 0; i < n; ++i) a[At(i * n + i)] = 0;
  return NormOf(a);
}

Doubles Mirrored(int64_t n, Doubles a) {
  Mirror(n, a.data());
  return a;
}

constexpr BasisSort kSorts[] = {BasisSort::kBefore, BasisSort::kAfter, BasisSort::kAscending, BasisSort::kNone};

TEST_CASE_TEMPLATE("an eigendecomposition gives an orthonormal basis, sorted as basis_sort says", Real, float, double) {
  const BlasFixture blas;
  const double roundoff = std::numeric_limits<Real>::epsilon();
  for (const int64_t n : {2, 3, 9, 40, 130}) {
    CAPTURE(n);
    const Doubles a = WithEigenvaluesBy(n, [](int64_t i) { return static_cast<double>(i + 1); });
    for (const BasisSort sort : kSorts) {
      CAPTURE(static_cast<int>(sort));
      const Computed<Real> made = Compute<Real>({.sort = sort}, n, a, nullptr);
      REQUIRE(made.outcome.root.ok());
      CHECK(!made.outcome.is_kept);
      CHECK(made.outcome.root.rung == Rung::kRequested);
      CHECK(made.outcome.root.kind == RootKind::kEigen);
      const double bound = 20 * std::sqrt(static_cast<double>(n)) * roundoff;
      CHECK(Orthogonality(n, made.basis) < bound);
      const Doubles rotated = Rotated(n, a, made.basis);
      CHECK(OffDiagonal(n, rotated) < bound * static_cast<double>(n) * std::sqrt(static_cast<double>(n)));
      for (int64_t i = 0; i < n; ++i) {
        const int64_t eigenvalue = sort == BasisSort::kAscending ? i + 1 : n - i;
        CHECK(rotated[At(i * n + i)] ==
              doctest::Approx(static_cast<double>(eigenvalue)).epsilon(bound * static_cast<double>(n)));
      }
    }
  }
}

TEST_CASE_TEMPLATE("the basis does not change if the matrix is multiplied or divided by a power of 2", Real, float,
                   double) {
  const BlasFixture blas;
  const int64_t n = 12;
  const Doubles a = WithEigenvaluesBy(n, [](int64_t i) { return std::ldexp(1, static_cast<int>(i)); });
  const int large = sizeof(Real) == 4 ? 100 : 900;
  for (const BasisMethod method : {BasisMethod::kEigen, BasisMethod::kQr}) {
    const std::vector<Real> previous =
        Compute<Real>({}, n, WithEigenvaluesBy(n, [](int64_t i) { return static_cast<double>(1 + i % 5); }), nullptr)
            .basis;
    const BasisSpec spec{.method = method};
    const Computed<Real> expected = Compute<Real>(spec, n, a, &previous);
    for (const int exponent : {large, -large}) {
      const Doubles scaled = Scaled(a, std::ldexp(1, exponent));
      CHECK(Compute<Real>(spec, n, scaled, &previous).basis == expected.basis);
      CHECK(Compute<Real>(spec, n, scaled, &previous, std::ldexp(1, exponent / 2)).basis == expected.basis);
    }
  }
}

// A matrix is negligible if none of its elements is a normal number of its dtype (IsNegligible()).
TEST_CASE_TEMPLATE("the basis of a negligible matrix or of a 1 x 1 matrix is the identity", Real, float, double) {
  const BlasFixture blas;
  for (const double value : {0.0, static_cast<double>(std::numeric_limits<Real>::denorm_min())}) {
    const Computed<Real> zero = Compute<Real>({}, 3, Doubles(9, value), nullptr);
    REQUIRE(zero.outcome.root.ok());
    CHECK(zero.basis == Identity<Real>(3));
  }
  for (const double value : {0.0, 4.0, -3.0}) {
    const Computed<Real> one = Compute<Real>({}, 1, {value}, nullptr);
    REQUIRE(one.outcome.root.ok());
    CHECK(one.basis == std::vector<Real>{1});
    CHECK(one.outcome.root.kind == RootKind::kScalar);
  }
}

TEST_CASE_TEMPLATE("bases of rank-deficient matrices are complete and orthonormal", Real, float, double) {
  const BlasFixture blas;
  const double roundoff = std::numeric_limits<Real>::epsilon();
  for (const int64_t rank : {0, 1, 3}) {
    for (const int64_t n : {4, 20, 70}) {
      CAPTURE(rank);
      CAPTURE(n);
      const Doubles a = WithEigenvaluesBy(n, [rank](int64_t i) { return i < rank ? 1.0 + static_cast<double>(i) : 0; });
      const Doubles other = WithEigenvaluesBy(n, [](int64_t i) { return static_cast<double>(i + 1); });
      for (const BasisMethod method : {BasisMethod::kEigen, BasisMethod::kQr}) {
        for (const BasisSort sort : kSorts) {
          const std::vector<Real> previous = Compute<Real>({.sort = sort}, n, other, nullptr).basis;
          const Computed<Real> made = Compute<Real>({.method = method, .sort = sort}, n, a, &previous);
          REQUIRE(made.outcome.root.ok());
          CHECK(Orthogonality(n, made.basis) < 40 * std::sqrt(static_cast<double>(n)) * roundoff);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE(
    "an orthogonal iteration computes a QR decomposition of A Q for the previous basis Q, and sorts as basis_sort says",
    Real, float, double) {
  const BlasFixture blas;
  const double roundoff = std::numeric_limits<Real>::epsilon();
  const int64_t n = 5;
  // The columns of the identity are nearly eigenvectors of A. The matching eigenvalues are about 2, 4, 1, 5 and 3, so
  // the columns are not sorted by eigenvalue.
  Doubles a(At(n * n), 0.01);
  const double eigenvalues[] = {2, 4, 1, 5, 3};
  for (int64_t i = 0; i < n; ++i) a[At(i * n + i)] = eigenvalues[i];
  const std::vector<Real> identity = Identity<Real>(n);
  const std::vector<int32_t> by_eigenvalue = {3, 1, 4, 0, 2};
  for (const BasisSort sort : kSorts) {
    CAPTURE(static_cast<int>(sort));
    const Computed<Real> made = Compute<Real>({.method = BasisMethod::kQr, .sort = sort}, n, a, &identity);
    REQUIRE(made.outcome.root.ok());
    CHECK(Orthogonality(n, made.basis) < 20 * roundoff);
    std::vector<int32_t> places = {0, 1, 2, 3, 4};  // the coordinate axis to which column j is closest
    if (sort != BasisSort::kNone) places = by_eigenvalue;
    if (sort == BasisSort::kAscending) std::reverse(places.begin(), places.end());
    for (int64_t j = 0; j < n; ++j) {
      CHECK(std::fabs(made.basis[At(places[At(j)] * n + j)]) > Real{0.99});
    }
    // Only kBefore sorts the columns of the previous basis.
    if (sort == BasisSort::kBefore) CHECK(made.order == by_eigenvalue);
    if (sort != BasisSort::kBefore) CHECK(made.order == std::vector<int32_t>{0, 1, 2, 3, 4});
    // If columns are not sorted after the iteration, the first column of the new basis is the normalized first column
    // of A Q, where Q is the previous basis, sorted if `sort` is kBefore.
    if (sort == BasisSort::kBefore || sort == BasisSort::kNone) {
      const int64_t first = places[0];
      double norm = 0;
      for (int64_t i = 0; i < n; ++i) norm += a[At(i * n + first)] * a[At(i * n + first)];
      const double sign = std::copysign(1 / std::sqrt(norm), static_cast<double>(made.basis[At(first * n)]));
      for (int64_t i = 0; i < n; ++i) {
        CHECK(static_cast<double>(made.basis[At(i * n)]) ==
              doctest::Approx(a[At(i * n + first)] * sign).epsilon(20 * roundoff));
      }
    }
  }
}

TEST_CASE("columns with equal eigenvalue estimates keep their order") {
  const BlasFixture blas;
  Doubles a(64);
  for (int64_t i = 0; i < 8; ++i) a[At(i * 8 + i)] = i < 4 ? 1 : 2;
  const Doubles identity = Identity<double>(8);
  const BasisSpec spec{.method = BasisMethod::kQr};
  CHECK(Compute<double>(spec, 8, a, &identity).order == std::vector<int32_t>{4, 5, 6, 7, 0, 1, 2, 3});
}

TEST_CASE(
    "k iterations in one call give the same basis as k calls with one iteration each, and 16 iterations make the "
    "matrix nearly diagonal") {
  const BlasFixture blas;
  const int64_t n = 10;
  const Doubles a = WithEigenvaluesBy(n, [](int64_t i) { return std::pow(3, static_cast<double>(i)); });
  for (const BasisSort sort : {BasisSort::kNone, BasisSort::kBefore}) {
    const Doubles identity = Identity<double>(n);
    BasisSpec spec{.method = BasisMethod::kQr, .sort = sort};
    std::vector<double> single = Compute<double>(spec, n, a, &identity).basis;
    if (sort == BasisSort::kBefore) spec.sort = BasisSort::kNone;  // only the first iteration sorts
    for (const int64_t iterations : {2, 3, 4, 5}) {
      single = Compute<double>(spec, n, a, &single).basis;
      const BasisSpec several{.method = BasisMethod::kQr, .sort = sort, .iterations = iterations};
      const std::vector<double> made = Compute<double>(several, n, a, &identity).basis;
      for (size_t i = 0; i < made.size(); ++i) CHECK(made[i] == doctest::Approx(single[i]).epsilon(1e-9));
    }
    const BasisSpec many{.method = BasisMethod::kQr, .sort = sort, .iterations = 16};
    CHECK(OffDiagonal(n, Rotated(n, a, Compute<double>(many, n, a, &identity).basis)) < 0.01 * OffDiagonal(n, a));
  }
}

TEST_CASE_TEMPLATE("the previous basis is kept if the matrix is diagonal in this basis up to basis_tolerance", Real,
                   float, double) {
  const BlasFixture blas;
  // The check of the tolerance rotates 32 rows at a time: all rows at once for n = 3, but not for the larger sizes.
  for (const int64_t n : {3, 40, 75}) {
    const Doubles a = Mirrored(n, WithEigenvaluesBy(n, [](int64_t i) { return static_cast<double>(i + 1); }));
    BasisSpec spec{.sort = BasisSort::kNone};
    // Makes the previous basis inexact: rotates its first and last column by 0.1 radians in their plane.
    std::vector<Real> previous = Compute<Real>(spec, n, a, nullptr).basis;
    const Real c = std::cos(Real{0.1}), s = std::sin(Real{0.1});
    for (int64_t i = 0; i < n; ++i) {
      Real* const row = previous.data() + i * n;
      const Real x = row[0], y = row[n - 1];
      row[0] = c * x + s * y;
      row[n - 1] = c * y - s * x;
    }
    const double error = OffDiagonal(n, Rotated(n, a, previous)) / NormOf(a);
    REQUIRE(error > 1e-3);
    for (const BasisMethod method : {BasisMethod::kEigen, BasisMethod::kQr}) {
      CAPTURE(n);
      CAPTURE(static_cast<int>(method));
      spec.method = method;
      spec.iterations = 3;
      spec.tolerance = 1.01 * error;
      CHECK(Compute<Real>(spec, n, a, &previous).outcome.is_kept);
      spec.tolerance = 0.99 * error;
      const Computed<Real> made = Compute<Real>(spec, n, a, &previous);
      CHECK(!made.outcome.is_kept);
      CHECK(OffDiagonal(n, Rotated(n, a, made.basis)) / NormOf(a) < error);
      spec.tolerance = 0;
      CHECK(!Compute<Real>(spec, n, a, &previous).outcome.is_kept);
    }
    // Without a previous basis, the tolerance has no effect.
    spec.method = BasisMethod::kEigen;
    spec.tolerance = 1;
    CHECK(!Compute<Real>(spec, n, a, nullptr).outcome.is_kept);
  }
}

TEST_CASE("orthogonal iterations stop when the matrix is diagonal up to the tolerance") {
  const BlasFixture blas;
  const int64_t n = 6;
  const Doubles a = Mirrored(n, WithEigenvaluesBy(n, [](int64_t i) { return std::pow(10, static_cast<double>(i)); }));
  const Doubles identity = Identity<double>(n);
  BasisSpec spec{.method = BasisMethod::kQr, .sort = BasisSort::kNone};
  const Computed<double> one = Compute<double>(spec, n, a, &identity);
  spec.tolerance = 1.01 * OffDiagonal(n, Rotated(n, a, one.basis)) / NormOf(a);
  spec.iterations = 16;
  const Computed<double> stopped = Compute<double>(spec, n, a, &identity);
  CHECK(!stopped.outcome.is_kept);
  CHECK(stopped.basis == one.basis);
}

TEST_CASE("a matrix is divided by SymmetricView::divisor before basis_epsilon is added to its diagonal") {
  const BlasFixture blas;
  const int64_t n = 4;
  const Doubles a = WithEigenvaluesBy(n, [](int64_t i) { return static_cast<double>(i); });
  Doubles added = a;
  for (int64_t i = 0; i < n; ++i) added[At(i * n + i)] += 0.75;
  const Doubles identity = Identity<double>(n);
  BasisSpec spec{.method = BasisMethod::kQr};
  const std::vector<double> expected = Compute<double>(spec, n, added, &identity).basis;
  const std::vector<double> without = Compute<double>(spec, n, a, &identity).basis;
  spec.epsilon = 0.75;
  const std::vector<double> made = Compute<double>(spec, n, Scaled(a, 0.5), &identity, 0.5).basis;
  for (size_t i = 0; i < made.size(); ++i) CHECK(made[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  CHECK(LargestDifference(made, without) > 1e-3);
}

TEST_CASE("a matrix that contains NaN or infinity is reported") {
  const BlasFixture blas;
  const std::vector<float> identity = Identity<float>(2);
  for (const BasisMethod method : {BasisMethod::kEigen, BasisMethod::kQr}) {
    const BasisSpec spec{.method = method};
    CHECK(Compute<float>(spec, 2, {1, 0, NAN, 1}, &identity).outcome.root.failure == RootFailure::kNanInput);
    CHECK(Compute<float>(spec, 2, {INFINITY, 0, 0, 1}, &identity).outcome.root.failure == RootFailure::kInfInput);
  }
}

}  // namespace
}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/blas/scratch.h"
#include "core/roots/eigenbasis.h"
#include "core/roots/matrix.h"
#include "tests/core/symmetric_matrices.h"

namespace shampoo {
namespace {

using Matrix = std::vector<double>;
size_t MatrixSize(int64_t n) { return static_cast<size_t>(n); }

struct ScratchFixture {
  blas::Scratch scratch;
  blas::ScratchUse use;
  ScratchFixture() : scratch(Make()), use(&scratch) {}
  static blas::Scratch Make() {
    blas::Scratch made;
    REQUIRE(blas::Scratch::Create({}, &made).ok());
    return made;
  }
};

template <typename Real>
struct Computed {
  BasisOutcome outcome;
  std::vector<Real> basis;
  std::vector<int32_t> order;
};

// Computes a basis of a matrix with NaN above the diagonal. Checks that nothing is written beyond memory of the
// documented size.
template <typename Real>
Computed<Real> Compute(const BasisSpec& spec, int64_t n, const Matrix& matrix, const std::vector<Real>* previous,
                       double divisor = 1) {
  const Real nan = std::numeric_limits<Real>::quiet_NaN();
  std::vector<Real> lower(MatrixSize(n * n), nan);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) lower[MatrixSize(i * n + j)] = static_cast<Real>(matrix[MatrixSize(i * n + j)]);
  }
  std::vector<Real> memory(MatrixSize(BasisMemory<Real>::Elements(n) + 8), nan);
  std::vector<int32_t> ints(MatrixSize(BasisMemory<Real>::Ints(n) + 8), -77);
  std::vector<double> wide(MatrixSize(BasisMemory<double>::Elements(n)));
  std::vector<int32_t> wide_ints(MatrixSize(BasisMemory<double>::Ints(n)));
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

// Returns Q^T A Q.
template <typename Real>
Matrix Rotated(int64_t n, const Matrix& a, const std::vector<Real>& basis) {
  const Matrix q(basis.begin(), basis.end());
  Matrix aq(MatrixSize(n * n)), rotated(MatrixSize(n * n));
  blas::Gemm(n, n, n, a.data(), n, q.data(), n, aq.data(), n);
  blas::Gemm(blas::Product<double>{true, false, 1, 0}, n, n, n, q.data(), n, aq.data(), n, rotated.data(), n);
  return rotated;
}

template <typename Real>
double Orthogonality(int64_t n, const std::vector<Real>& basis) {
  Matrix identity(MatrixSize(n * n));
  for (int64_t i = 0; i < n; ++i) identity[MatrixSize(i * n + i)] = 1;
  Matrix product = Rotated(n, identity, basis);
  double largest = 0;
  for (size_t i = 0; i < product.size(); ++i) largest = std::max(largest, std::fabs(product[i] - identity[i]));
  return largest;
}

double OffDiagonal(int64_t n, const Matrix& a) {
  double square = 0;
  for (int64_t i = 0; i < n * n; ++i) {
    if (i / n != i % n) square += a[MatrixSize(i)] * a[MatrixSize(i)];
  }
  return std::sqrt(square);
}

Matrix Mirrored(int64_t n, Matrix a) {
  Mirror(n, a.data());
  return a;
}

constexpr BasisSort kSorts[] = {BasisSort::kBefore, BasisSort::kAfter, BasisSort::kAscending, BasisSort::kNone};

TEST_CASE_TEMPLATE("an eigendecomposition gives an orthonormal basis, sorted as basis_sort says", Real, float, double) {
  const ScratchFixture fixture;
  const double roundoff = std::numeric_limits<Real>::epsilon();
  for (const int64_t n : {2, 3, 9, 40, 130}) {
    CAPTURE(n);
    const Matrix a = WithEigenvaluesBy(n, [](int64_t i) { return static_cast<double>(i + 1); });
    for (const BasisSort sort : kSorts) {
      CAPTURE(static_cast<int>(sort));
      BasisSpec spec;
      spec.sort = sort;
      const Computed<Real> made = Compute<Real>(spec, n, a, nullptr);
      REQUIRE(made.outcome.root.ok());
      CHECK(!made.outcome.is_kept);
      CHECK(made.outcome.root.rung == Rung::kRequested);
      CHECK(made.outcome.root.kind == RootKind::kEigen);
      const double bound = 20 * std::sqrt(static_cast<double>(n)) * roundoff;
      CHECK(Orthogonality(n, made.basis) < bound);
      const Matrix rotated = Rotated(n, a, made.basis);
      CHECK(OffDiagonal(n, rotated) < bound * static_cast<double>(n) * std::sqrt(static_cast<double>(n)));
      for (int64_t i = 0; i < n; ++i) {
        const int64_t eigenvalue = sort == BasisSort::kAscending ? i + 1 : n - i;
        CHECK(rotated[MatrixSize(i * n + i)] ==
              doctest::Approx(static_cast<double>(eigenvalue)).epsilon(bound * static_cast<double>(n)));
      }
    }
  }
}

TEST_CASE_TEMPLATE("the basis does not depend on the scale of the matrix or on its divisor", Real, float, double) {
  const ScratchFixture fixture;
  const int64_t n = 12;
  const Matrix a = WithEigenvaluesBy(n, [](int64_t i) { return std::ldexp(1, static_cast<int>(i)); });
  const int large = sizeof(Real) == 4 ? 100 : 900;
  for (const BasisMethod method : {BasisMethod::kEigen, BasisMethod::kQr}) {
    BasisSpec spec;
    const std::vector<Real> previous =
        Compute<Real>(spec, n, WithEigenvaluesBy(n, [](int64_t i) { return static_cast<double>(1 + i % 5); }), nullptr)
            .basis;
    spec.method = method;
    const Computed<Real> expected = Compute<Real>(spec, n, a, &previous);
    for (const int exponent : {large, -large}) {
      Matrix scaled = a;
      for (double& element : scaled) element = std::ldexp(element, exponent);
      CHECK(Compute<Real>(spec, n, scaled, &previous).basis == expected.basis);
      CHECK(Compute<Real>(spec, n, scaled, &previous, std::ldexp(1, exponent / 2)).basis == expected.basis);
    }
  }
}

TEST_CASE_TEMPLATE("the basis of a matrix of zeros is the identity, and that of a 1 x 1 matrix is 1", Real, float,
                   double) {
  const ScratchFixture fixture;
  BasisSpec spec;
  const std::vector<Real> identity = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  for (const double value : {0.0, static_cast<double>(std::numeric_limits<Real>::denorm_min())}) {
    const Computed<Real> zero = Compute<Real>(spec, 3, Matrix(9, value), nullptr);
    REQUIRE(zero.outcome.root.ok());
    CHECK(zero.basis == identity);
  }
  for (const double value : {0.0, 4.0, -3.0}) {
    const Computed<Real> one = Compute<Real>(spec, 1, {value}, nullptr);
    REQUIRE(one.outcome.root.ok());
    CHECK(one.basis == std::vector<Real>{1});
    CHECK(one.outcome.root.kind == RootKind::kScalar);
  }
}

TEST_CASE_TEMPLATE("bases of rank-deficient matrices are complete", Real, float, double) {
  const ScratchFixture fixture;
  const double roundoff = std::numeric_limits<Real>::epsilon();
  for (const int64_t rank : {0, 1, 3}) {
    for (const int64_t n : {4, 20, 70}) {
      CAPTURE(rank);
      CAPTURE(n);
      const Matrix a = WithEigenvaluesBy(n, [rank](int64_t i) { return i < rank ? 1.0 + static_cast<double>(i) : 0; });
      for (const BasisMethod method : {BasisMethod::kEigen, BasisMethod::kQr}) {
        for (const BasisSort sort : kSorts) {
          BasisSpec spec;
          spec.sort = sort;
          const std::vector<Real> previous =
              Compute<Real>(spec, n, WithEigenvaluesBy(n, [](int64_t i) { return static_cast<double>(i + 1); }),
                            nullptr)
                  .basis;
          spec.method = method;
          const Computed<Real> made = Compute<Real>(spec, n, a, &previous);
          REQUIRE(made.outcome.root.ok());
          CHECK(Orthogonality(n, made.basis) < 40 * std::sqrt(static_cast<double>(n)) * roundoff);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE(
    "an orthogonal iteration gives the Q factor of A times the previous basis, in the order that basis_sort says", Real,
    float, double) {
  const ScratchFixture fixture;
  const double roundoff = std::numeric_limits<Real>::epsilon();
  const int64_t n = 5;
  // The identity is nearly an eigenbasis, and its columns are not in the order of the eigenvalues 2, 4, 1, 5, 3.
  Matrix a(MatrixSize(n * n), 0.01);
  const double eigenvalues[] = {2, 4, 1, 5, 3};
  for (int64_t i = 0; i < n; ++i) a[MatrixSize(i * n + i)] = eigenvalues[i];
  std::vector<Real> identity(MatrixSize(n * n));
  for (int64_t i = 0; i < n; ++i) identity[MatrixSize(i * n + i)] = 1;
  const std::vector<int32_t> by_eigenvalue = {3, 1, 4, 0, 2};
  for (const BasisSort sort : kSorts) {
    CAPTURE(static_cast<int>(sort));
    BasisSpec spec;
    spec.method = BasisMethod::kQr;
    spec.sort = sort;
    const Computed<Real> made = Compute<Real>(spec, n, a, &identity);
    REQUIRE(made.outcome.root.ok());
    CHECK(Orthogonality(n, made.basis) < 20 * roundoff);
    std::vector<int32_t> places = {0, 1, 2, 3, 4};  // the coordinate axis to which column j is closest
    if (sort != BasisSort::kNone) places = by_eigenvalue;
    if (sort == BasisSort::kAscending) std::reverse(places.begin(), places.end());
    for (int64_t j = 0; j < n; ++j) {
      CHECK(std::fabs(made.basis[MatrixSize(places[MatrixSize(j)] * n + j)]) > Real{0.99});
    }
    // Only kBefore changes the order of the previous columns.
    if (sort == BasisSort::kBefore) CHECK(made.order == by_eigenvalue);
    if (sort != BasisSort::kBefore) CHECK(made.order == std::vector<int32_t>{0, 1, 2, 3, 4});
    // If columns are not sorted after the iteration, the first one is the normalized first column of A Q.
    if (sort == BasisSort::kBefore || sort == BasisSort::kNone) {
      const int64_t first = places[0];
      double norm = 0;
      for (int64_t i = 0; i < n; ++i) norm += a[MatrixSize(i * n + first)] * a[MatrixSize(i * n + first)];
      const double sign = std::copysign(1 / std::sqrt(norm), static_cast<double>(made.basis[MatrixSize(first * n)]));
      for (int64_t i = 0; i < n; ++i) {
        CHECK(static_cast<double>(made.basis[MatrixSize(i * n)]) ==
              doctest::Approx(a[MatrixSize(i * n + first)] * sign).epsilon(20 * roundoff));
      }
    }
  }
}

TEST_CASE("columns with equal eigenvalue estimates keep their order") {
  const ScratchFixture fixture;
  Matrix a(64);
  for (int64_t i = 0; i < 8; ++i) a[MatrixSize(i * 8 + i)] = i < 4 ? 1 : 2;
  std::vector<double> identity(64);
  for (int64_t i = 0; i < 8; ++i) identity[MatrixSize(i * 8 + i)] = 1;
  BasisSpec spec;
  spec.method = BasisMethod::kQr;
  CHECK(Compute<double>(spec, 8, a, &identity).order == std::vector<int32_t>{4, 5, 6, 7, 0, 1, 2, 3});
}

TEST_CASE(
    "n iterations at once give the basis of n single iterations, and many iterations make the matrix nearly diagonal") {
  const ScratchFixture fixture;
  const int64_t n = 10;
  const Matrix a = WithEigenvaluesBy(n, [](int64_t i) { return std::pow(3, static_cast<double>(i)); });
  for (const BasisSort sort : {BasisSort::kNone, BasisSort::kBefore}) {
    std::vector<double> identity(MatrixSize(n * n));
    for (int64_t i = 0; i < n; ++i) identity[MatrixSize(i * n + i)] = 1;
    BasisSpec spec;
    spec.method = BasisMethod::kQr;
    spec.sort = sort;
    std::vector<double> single = Compute<double>(spec, n, a, &identity).basis;
    if (sort == BasisSort::kBefore) spec.sort = BasisSort::kNone;  // only the first iteration sorts
    for (const int64_t iterations : {2, 3, 4, 5}) {
      single = Compute<double>(spec, n, a, &single).basis;
      BasisSpec several = spec;
      several.sort = sort;
      several.iterations = iterations;
      const std::vector<double> made = Compute<double>(several, n, a, &identity).basis;
      for (size_t i = 0; i < made.size(); ++i) CHECK(made[i] == doctest::Approx(single[i]).epsilon(1e-9));
    }
    BasisSpec many = spec;
    many.sort = sort;
    many.iterations = 16;
    CHECK(OffDiagonal(n, Rotated(n, a, Compute<double>(many, n, a, &identity).basis)) < 0.01 * OffDiagonal(n, a));
  }
}

TEST_CASE_TEMPLATE("basis_tolerance keeps a basis in which the matrix is nearly diagonal", Real, float, double) {
  const ScratchFixture fixture;
  for (const int64_t n : {3, 40, 75}) {  // one and several passes of the check
    const Matrix a = Mirrored(n, WithEigenvaluesBy(n, [](int64_t i) { return static_cast<double>(i + 1); }));
    BasisSpec spec;
    spec.sort = BasisSort::kNone;
    // A basis that is not exact: the first and the last column are rotated by 0.1 radians in their plane.
    std::vector<Real> previous = Compute<Real>(spec, n, a, nullptr).basis;
    const Real c = std::cos(Real{0.1}), s = std::sin(Real{0.1});
    for (int64_t i = 0; i < n; ++i) {
      Real* const row = previous.data() + i * n;
      const Real x = row[0], y = row[n - 1];
      row[0] = c * x + s * y;
      row[n - 1] = c * y - s * x;
    }
    double norm = 0;
    for (const double element : a) norm += element * element;
    const double error = OffDiagonal(n, Rotated(n, a, previous)) / std::sqrt(norm);
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
      CHECK(OffDiagonal(n, Rotated(n, a, made.basis)) / std::sqrt(norm) < error);
      spec.tolerance = 0;
      CHECK(!Compute<Real>(spec, n, a, &previous).outcome.is_kept);
    }
    // Without a previous basis, there is none to keep.
    spec.method = BasisMethod::kEigen;
    spec.tolerance = 1;
    CHECK(!Compute<Real>(spec, n, a, nullptr).outcome.is_kept);
  }
}

TEST_CASE("orthogonal iteration stops when the tolerance is reached") {
  const ScratchFixture fixture;
  const int64_t n = 6;
  const Matrix a = Mirrored(n, WithEigenvaluesBy(n, [](int64_t i) { return std::pow(10, static_cast<double>(i)); }));
  std::vector<double> identity(MatrixSize(n * n));
  for (int64_t i = 0; i < n; ++i) identity[MatrixSize(i * n + i)] = 1;
  BasisSpec spec;
  spec.method = BasisMethod::kQr;
  spec.sort = BasisSort::kNone;
  const Computed<double> one = Compute<double>(spec, n, a, &identity);
  double norm = 0;
  for (const double element : a) norm += element * element;
  spec.tolerance = 1.01 * OffDiagonal(n, Rotated(n, a, one.basis)) / std::sqrt(norm);
  spec.iterations = 16;
  const Computed<double> stopped = Compute<double>(spec, n, a, &identity);
  CHECK(!stopped.outcome.is_kept);
  CHECK(stopped.basis == one.basis);
}

TEST_CASE("the matrix is divided by the divisor first, then basis_epsilon is added to its diagonal") {
  const ScratchFixture fixture;
  const int64_t n = 4;
  const Matrix a = WithEigenvaluesBy(n, [](int64_t i) { return static_cast<double>(i); });
  Matrix added = a;
  for (int64_t i = 0; i < n; ++i) added[MatrixSize(i * n + i)] += 0.75;
  Matrix halves = a;
  for (double& element : halves) element /= 2;
  std::vector<double> identity(MatrixSize(n * n));
  for (int64_t i = 0; i < n; ++i) identity[MatrixSize(i * n + i)] = 1;
  BasisSpec spec;
  spec.method = BasisMethod::kQr;
  const std::vector<double> expected = Compute<double>(spec, n, added, &identity).basis;
  const std::vector<double> without = Compute<double>(spec, n, a, &identity).basis;
  spec.epsilon = 0.75;
  const std::vector<double> made = Compute<double>(spec, n, halves, &identity, 0.5).basis;
  double difference = 0;
  for (size_t i = 0; i < made.size(); ++i) {
    CHECK(made[i] == doctest::Approx(expected[i]).epsilon(1e-12));
    difference = std::max(difference, std::fabs(made[i] - without[i]));
  }
  CHECK(difference > 1e-3);
}

TEST_CASE("a matrix that is not finite is reported") {
  const ScratchFixture fixture;
  std::vector<float> identity = {1, 0, 0, 1};
  for (const BasisMethod method : {BasisMethod::kEigen, BasisMethod::kQr}) {
    BasisSpec spec;
    spec.method = method;
    CHECK(Compute<float>(spec, 2, {1, 0, NAN, 1}, &identity).outcome.root.failure == RootFailure::kNanInput);
    CHECK(Compute<float>(spec, 2, {INFINITY, 0, 0, 1}, &identity).outcome.root.failure == RootFailure::kInfInput);
  }
}

}  // namespace
}  // namespace shampoo

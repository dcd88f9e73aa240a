// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/config/ns_coefficients.h"
#include "core/roots/orthogonalize.h"
#include "core/rules/muon.h"
#include "tests/core/symmetric_matrices.h"

namespace shampoo {
namespace {

Settings WithCoefficients(const char* coefficients, int64_t steps = 5) {
  Settings settings;
  std::string canonical;
  REQUIRE(ParseNsCoefficients(coefficients, &settings.ns_coefficients, &canonical));
  settings.ns_steps = steps;
  return settings;
}

Settings ExactSettings() {
  Settings settings;
  settings.orthogonalization = Orthogonalization::kExact;
  return settings;
}

template <typename Real>
std::vector<Real> Orthogonalized(const Settings& settings, int64_t rows, int64_t columns, std::vector<Real> x,
                                 Tiles* tiles = nullptr) {
  const BlasFixture blas;
  std::vector<double> memory(
      static_cast<size_t>(OrthogonalizeMemory<Real>::Elements(settings.orthogonalization, rows, columns)));
  REQUIRE(Orthogonalize<Real>(settings, rows, columns, x.data(), {reinterpret_cast<Real*>(memory.data()), tiles}));
  return x;
}

template <typename Real>
std::vector<Real> DrawMatrix(int64_t n) {
  std::mt19937_64 random(static_cast<uint64_t>(n));
  std::normal_distribution<double> normal;
  std::vector<Real> values(static_cast<size_t>(n));
  for (Real& value : values) value = static_cast<Real>(normal(random));
  return values;
}

// Returns the largest distance of an element of X X^T from the identity. If X is tall, uses X^T X instead.
template <typename Real>
double DistanceFromOrthogonal(int64_t rows, int64_t columns, const std::vector<Real>& x) {
  const int64_t small = std::min(rows, columns);
  const int64_t large = std::max(rows, columns);
  const int64_t step = rows <= columns ? columns : 1;   // from one index of the smaller dim to the next
  const int64_t inner = rows <= columns ? 1 : columns;  // from one index of the larger dim to the next
  double worst = 0;
  for (int64_t i = 0; i < small; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      double sum = i == j ? -1 : 0;
      for (int64_t k = 0; k < large; ++k) {
        sum += double(x[size_t(i * step + k * inner)]) * double(x[size_t(j * step + k * inner)]);
      }
      worst = std::max(worst, std::fabs(sum));
    }
  }
  return worst;
}

// The key ns_coefficients in docs/keys.md names the sources of the coefficients.
TEST_CASE(
    "five Newton-Schulz steps with each value of ns_coefficients map the singular values 1 and 4 to known numbers") {
  struct Expected {
    const char* coefficients;
    double of_1, of_4;
  };
  for (const Expected& expected :
       {Expected{"jordan", .742864755301412, .737354569654569}, Expected{"quintic", 1.00995854491388, 1.02024442459950},
        Expected{"polar_express", 1.02107884998992, 1.00535771787588},
        Expected{"cubic5", .782705952178527, 1.29902859500968}}) {
    CAPTURE(std::string(expected.coefficients));
    const auto x = Orthogonalized<double>(WithCoefficients(expected.coefficients), 2, 2, {1, 0, 0, 4});
    const double tolerance = std::string(expected.coefficients) == "cubic5" ? 1e-7 : 1e-13;
    CHECK(std::fabs(x[0] - expected.of_1) < tolerance);
    CHECK(std::fabs(x[3] - expected.of_4) < tolerance);
    CHECK(x[1] == 0);
    CHECK(x[2] == 0);
  }
}

TEST_CASE(
    "a list of the coefficients of jordan gives the results of jordan, and the last entry of a list is repeated") {
  const std::vector<double> a = DrawMatrix<double>(12);
  const auto jordan = Orthogonalized<double>(WithCoefficients("jordan", 3), 3, 4, a);
  CHECK(jordan == Orthogonalized<double>(WithCoefficients("3.4445,-4.775,2.0315", 3), 3, 4, a));
  CHECK(jordan == Orthogonalized<double>(
                      WithCoefficients("3.4445,-4.775,2.0315;3.4445,-4.775,2.0315;3.4445,-4.775,2.0315", 3), 3, 4, a));
  CHECK(jordan != Orthogonalized<double>(WithCoefficients("jordan", 4), 3, 4, a));
  // With enough steps, the cubic iteration converges to the exact result U V^T. U S V^T is the singular value
  // decomposition of `a`.
  const auto converged = Orthogonalized<double>(WithCoefficients("1.5,-0.5,0", 60), 3, 4, a);
  CHECK(DistanceFromOrthogonal(3, 4, converged) < 1e-13);
  const Settings exact = ExactSettings();
  const auto svd = Orthogonalized<double>(exact, 3, 4, a);
  CHECK(LargestDifference(converged, svd) < 1e-13);
}

template <typename Real>
void CheckScaled(int exponent, const Settings& settings) {
  CAPTURE(exponent);
  std::vector<Real> a = DrawMatrix<Real>(5 * 7);
  const std::vector<Real> expected = Orthogonalized<Real>(settings, 5, 7, a);
  for (Real& value : a) value = std::ldexp(value, exponent);
  CHECK(Orthogonalized<Real>(settings, 5, 7, a) == expected);
}

TEST_CASE("multiplying a matrix by a power of two changes no bit of the orthogonalized matrix") {
  Settings schatten = WithCoefficients("quintic");
  schatten.ns_norm = NsNorm::kSchatten4;
  const Settings exact = ExactSettings();
  for (const Settings& settings : {WithCoefficients("polar_express"), WithCoefficients("cubic5"), schatten, exact}) {
    for (const int exponent : {-100, -60, -1, 3, 60, 120}) CheckScaled<float>(exponent, settings);
    for (const int exponent : {-950, -60, 1, 60, 1000}) CheckScaled<double>(exponent, settings);
  }
}

TEST_CASE("the result of an orthogonalization does not depend on the division into tiles") {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{600, 2500}, {2500, 600}}) {
    CAPTURE(rows);
    const std::vector<float> a = DrawMatrix<float>(rows * columns);
    for (const char* const coefficients : {"polar_express", "cubic5"}) {
      ReverseTiles tiles;
      const auto alone = Orthogonalized<float>(WithCoefficients(coefficients, 2), rows, columns, a);
      CHECK(Orthogonalized<float>(WithCoefficients(coefficients, 2), rows, columns, a, &tiles) == alone);
      CHECK(tiles.most > 1);
    }
  }
}

TEST_CASE(
    "wide, tall and square matrices and vectors become nearly orthogonal, and transposes give transposed results") {
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{6, 11}, {11, 6}, {8, 8}, {1, 9}, {9, 1}, {1, 1}, {33, 70}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    const std::vector<double> a = DrawMatrix<double>(rows * columns);
    const auto turned = [](int64_t from_rows, int64_t from_columns, const std::vector<double>& from) {
      std::vector<double> to(from.size());
      for (int64_t i = 0; i < from_rows; ++i) {
        for (int64_t j = 0; j < from_columns; ++j) to[At(j * from_rows + i)] = from[At(i * from_columns + j)];
      }
      return to;
    };
    const auto x = Orthogonalized<double>(WithCoefficients("polar_express", 8), rows, columns, a);
    const auto y =
        Orthogonalized<double>(WithCoefficients("polar_express", 8), columns, rows, turned(rows, columns, a));
    CHECK(DistanceFromOrthogonal(rows, columns, x) < 0.2);
    CHECK(LargestDifference(turned(rows, columns, x), y) < 1e-12);
    const Settings exact = ExactSettings();
    CHECK(DistanceFromOrthogonal(rows, columns, Orthogonalized<double>(exact, rows, columns, a)) < 1e-13);
    std::vector<float> narrow(a.begin(), a.end());
    CHECK(DistanceFromOrthogonal(rows, columns, Orthogonalized<float>(exact, rows, columns, narrow)) < 1e-6);
  }
}

TEST_CASE("orthogonalization keeps zeros, and does not overflow or underflow with the largest and smallest floats") {
  const Settings settings = WithCoefficients("polar_express");
  CHECK(Orthogonalized<float>(settings, 2, 3, std::vector<float>(6)) == std::vector<float>(6));
  const auto identity = Orthogonalized<float>(settings, 2, 2, {1, 0, 0, 1});
  CHECK(std::fabs(identity[0] - 1) < 0.2F);
  for (const float extreme : {std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()}) {
    CAPTURE(extreme);
    const auto x = Orthogonalized<float>(settings, 2, 2, {extreme, 0, 0, extreme});
    CHECK(std::fabs(x[0] - identity[0]) < 1e-6F);
    CHECK(x[0] == x[3]);
    CHECK(x[1] == 0);
  }
}

TEST_CASE("exact orthogonalization maps singular values below kLeastSingularValue times the norm to 0") {
  const Settings exact = ExactSettings();
  const double above = 1.01 * kLeastSingularValue;
  const double below = 0.99 * kLeastSingularValue;
  CHECK(Orthogonalized<double>(exact, 2, 2, {1, 0, 0, above}) == std::vector<double>{1, 0, 0, 1});
  CHECK(Orthogonalized<double>(exact, 2, 2, {1, 0, 0, below}) == std::vector<double>{1, 0, 0, 0});
  CHECK(Orthogonalized<float>(exact, 2, 3, {0, 0, 0, 0, 3e-30F, 0}) == std::vector<float>{0, 0, 0, 0, 1, 0});
  // For a matrix of rank 1, the result is the matrix divided by its norm. The result does not depend on which basis
  // of the null space the solver chooses.
  const std::vector<double> a = {1, 2, 2, 2, 4, 4, 2, 4, 4};
  const std::vector<double> x = Orthogonalized<double>(exact, 3, 3, a);
  CHECK(LargestDifference(x, Scaled(a, 1 / 9.0)) < 1e-15);
}

// Returns the value to which the steps of exact orthogonalization on a device map a singular value s.
double AfterExactSteps(double s) {
  for (int64_t step = 0; step < kExactSteps; ++step) {
    const NsCoefficients::Entry entry = ExactEntryOf(step);
    const double next = s * (entry.a + s * s * (entry.b + s * s * entry.c));
    // A lifting step (core/rules/muon.h) must not map a large value to a small one, because the relative error of the
    // small value would be large.
    if (step < kLiftingSteps && s >= 0.09) CHECK((next >= 0.33 && next <= 0.9901));
    s = next;
  }
  return s;
}

TEST_CASE(
    "the steps of exact orthogonalization on a device map singular values to 0 or 1 except near kLeastSingularValue") {
  CHECK(AfterExactSteps(0) == 0);
  for (double s = 0x1p-37; s < 1; s *= 1.0003) CHECK(std::fabs(AfterExactSteps(s) - 1) < 1e-12);
  for (const double s : {1.0, 1 + 1e-15, 1 + 1e-9}) CHECK(std::fabs(AfterExactSteps(s) - 1) < 1e-15);
  for (double s = 0x1p-41; s < 0x1p-37; s *= 1.01) {
    CAPTURE(s);
    const double after = AfterExactSteps(s);
    CHECK((after >= 0 && after < 1 + 1e-12));
    CHECK(after >= (s >= 0x1p-38 ? 0.99 : 0));
  }
  for (double s = 0x1p-41; s > 1e-17; s *= 0.9) CHECK(AfterExactSteps(s) < 2e-5);
  // Below kLeastSingularValue, results are 0 on the CPU. Near this limit, results on a device increase from 0 to 1.
  const double at_limit = AfterExactSteps(kLeastSingularValue);
  CHECK((at_limit > 0.1 && at_limit < 0.9));
}

TEST_CASE("if the Newton-Schulz iteration diverges, the result is infinite or NaN instead of a wrong finite number") {
  const auto x = Orthogonalized<float>(WithCoefficients("30,30,30", 60), 3, 4, DrawMatrix<float>(12));
  CHECK(!std::isfinite(x[0]));
}

}  // namespace
}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Compares the roots that root_method=cans computes on the CPU (docs/roots.md) with the roots that root_method=eigen
// computes in float64.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "core/roots/inverse_root.h"
#include "tests/core/symmetric_matrices.h"

namespace shampoo {
namespace {

// The eigenvalues of an n x n matrix. They descend from at(n, 0), which is 1, to at(n, n - 1), which is 0.
struct Spectrum {
  const char* name;
  std::function<double(int64_t n, int64_t i)> at;
};
const Spectrum kSpectra[] = {
    {"geometric", [](int64_t n, int64_t i) { return i + 1 == n ? 0 : std::pow(1e-5, double(i) / double(n)); }},
    {"one large", [](int64_t, int64_t i) { return i == 0 ? 1 : 0; }},
    {"one zero", [](int64_t n, int64_t i) { return i + 1 == n ? 0 : 1; }},
    {"cubes", [](int64_t n, int64_t i) { return std::pow(double(n - 1 - i) / double(n - 1), 3); }},
};

double LargestRowSum(int64_t n, const std::vector<float>& a) {
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += std::fabs(double(a[size_t(i * n + j)]));
    largest = std::max(largest, sum);
  }
  return largest;
}

struct Sample {
  std::vector<float> a;
  double norm = 0;
  double least = 0;  // the smallest eigenvalue of a
};

Sample Draw(int64_t n, const Spectrum& spectrum) {
  const BlasFixture blas;
  const Doubles dense = WithEigenvaluesBy(n, [&](int64_t i) { return spectrum.at(n, i); });
  Sample sample{std::vector<float>(dense.begin(), dense.end()), 0, 0};
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) sample.a[size_t(j * n + i)] = sample.a[size_t(i * n + j)];
  }
  sample.norm = LargestRowSum(n, sample.a);
  Doubles vectors(sample.a.begin(), sample.a.end());
  Doubles values(static_cast<size_t>(n)), work(static_cast<size_t>(blas::EigenWork(n)));
  std::vector<int32_t> ints(static_cast<size_t>(blas::EigenIntWork(n)));
  REQUIRE(blas::Syev(n, vectors.data(), values.data(), work.data()) == 0);
  sample.least = values[0];
  return sample;
}

// Returns the epsilon for which the smallest eigenvalue of B = sample.a + epsilon I is `fraction` times the largest sum
// of absolute values in a row of B.
double EpsilonFor(const Sample& sample, double fraction) {
  return (fraction * sample.norm - sample.least) / (1 - fraction);
}

struct Roots {
  RootOutcome outcome;
  double error = 0;  // max |X - Y| / max |Y|, where X is the computed root, and Y that of method eigen in float64
};

template <typename Real>
Roots Compute(int64_t n, const std::vector<Real>& a, int64_t root, const Settings& settings) {
  std::vector<Real> x(a.size());
  RootResult result;
  REQUIRE(InverseRoot(settings, root, 1, n, a.data(), x.data(), &result).ok());
  Settings exactly;
  exactly.exponent_multiplier = 1;
  exactly.epsilon = settings.epsilon;
  Doubles wide(a.begin(), a.end());
  if (result.outcome.kind == RootKind::kCans) {
    // Adds epsilon here, because method eigen would first subtract a negative smallest eigenvalue from all eigenvalues.
    exactly.epsilon = 0;
    for (int64_t i = 0; i < n; ++i) wide[size_t(i * n + i)] += settings.epsilon;
  }
  Doubles exact(a.size());
  RootResult of_exact;
  REQUIRE(InverseRoot(exactly, root, 1, n, wide.data(), exact.data(), &of_exact).ok());
  return {result.outcome, LargestDifference(Doubles(x.begin(), x.end()), exact) / LargestOf(exact)};
}

Settings CansSettings(double epsilon) {
  Settings settings;
  settings.root_method = RootMethod::kCans;
  settings.root_dtype = Dtype::kF32;
  settings.exponent_multiplier = 1;
  settings.epsilon = epsilon;
  return settings;
}

TEST_CASE(
    "root_method=cans computes roots with an error of at most 1e-4, and if it fails, method eigen computes them") {
  for (const int64_t n : {2, 5, 17, 64, 65, 150}) {
    for (const Spectrum& spectrum : kSpectra) {
      const Sample sample = Draw(n, spectrum);
      for (const double fraction :
           {0.3, 1e-1, 1e-2, 1e-3, 1e-4, 3e-5, 1e-5, 1e-6, 9e-7, 8e-7, 7e-7, 6e-7, 5e-7, 2e-7, 1e-7, 1e-8, 1e-10}) {
        const double epsilon = EpsilonFor(sample, fraction);
        if (epsilon < 0) continue;
        for (const int64_t root : {2, 4}) {
          CAPTURE(n);
          CAPTURE(std::string(spectrum.name));
          CAPTURE(fraction);
          CAPTURE(root);
          const Roots roots = Compute(n, sample.a, root, CansSettings(epsilon));
          CHECK(roots.error <= 1e-4);
          if (fraction >= 1e-5) {
            CHECK(roots.outcome.kind == RootKind::kCans);
            CHECK(roots.outcome.rungs_used == 0);
            CHECK(roots.outcome.iterations == (root == 2 ? 10 : 20));
            CHECK(roots.outcome.epsilon == doctest::Approx(epsilon));
          } else if (fraction <= 2e-7) {  // between 2e-7 and 1e-5, cans may succeed or fail
            CHECK(roots.outcome.kind == RootKind::kEigen);
            CHECK(roots.outcome.rung == Rung::kEigen);
            CHECK(roots.outcome.first_failure == RootFailure::kNotConverged);
            CHECK(roots.outcome.rungs_used == 1);
          }
        }
      }
    }
  }
}

TEST_CASE("root_method=cans computes roots of matrices with elements of any magnitude") {
  const Sample sample = Draw(20, kSpectra[0]);
  for (const double size : {1e-300, 1e-30, 1e-3, 1e5, 1e30, 1e300}) {
    CAPTURE(size);
    const Doubles a = Scaled(Doubles(sample.a.begin(), sample.a.end()), size);
    for (const int64_t root : {2, 4}) {
      const Roots roots = Compute(20, a, root, CansSettings(EpsilonFor(sample, 1e-4) * size));
      CHECK(roots.outcome.kind == RootKind::kCans);
      CHECK(roots.outcome.rungs_used == 0);
      CHECK(roots.error <= 1e-4);
    }
  }
}

TEST_CASE("method eigen computes the roots that root_method=cans does not support") {
  const Sample sample = Draw(9, kSpectra[0]);
  const Settings settings = CansSettings(EpsilonFor(sample, 1e-3));
  for (const int64_t root : {1, 3, 6, 8}) {
    const Roots roots = Compute(9, sample.a, root, settings);
    CHECK(roots.outcome.kind == RootKind::kEigen);
    CHECK(roots.outcome.rungs_used == 0);
  }
  // The exponent determines the method: cans supports -0.5 / 2 = -1/4, but not -0.5 / 4 = -1/8.
  Settings half = settings;
  half.exponent_multiplier = 0.5;
  std::vector<float> x(81);
  RootResult result;
  REQUIRE(InverseRoot(half, 2, 1, 9, sample.a.data(), x.data(), &result).ok());
  CHECK(result.outcome.kind == RootKind::kCans);
  REQUIRE(InverseRoot(half, 4, 1, 9, sample.a.data(), x.data(), &result).ok());
  CHECK(result.outcome.kind == RootKind::kEigen);
  CHECK(Compute<float>(1, {3}, 2, settings).outcome.kind == RootKind::kScalar);
  CHECK(Compute<float>(2, {3, 0, 0, 2}, 2, settings).outcome.kind == RootKind::kDiagonal);
  // Method cans cannot compute a root if an eigenvalue is below -epsilon. Method eigen first subtracts a negative
  // smallest eigenvalue from all eigenvalues.
  const Roots negative = Compute<float>(2, {1, 0.5, 0.5, -1}, 2, CansSettings(1e-3));
  CHECK(negative.outcome.kind == RootKind::kEigen);
  CHECK(negative.outcome.rungs_used == 1);
  // For a matrix A of zeros, epsilon alone determines the scale of A + epsilon I.
  const Roots zero = Compute<float>(2, {0, 0, 0, 0}, 4, CansSettings(1e-3));
  CHECK(zero.error <= 1e-4);
}

}  // namespace
}  // namespace shampoo

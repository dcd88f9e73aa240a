// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <thread>
#include <type_traits>
#include <vector>

#include "core/blas/blas.h"
#include "core/roots/eigensolver.h"
#include "core/roots/matrix.h"
#include "tests/core/symmetric_matrices.h"

namespace shampoo {
namespace {

// Returns G G^T / n, where G is an n x 2n matrix of normally distributed random numbers.
Doubles Wishart(int64_t n) {
  std::mt19937_64 random(At(n));
  std::normal_distribution<double> normal;
  Doubles g(At(2 * n * n)), a(At(n * n));
  for (double& element : g) element = normal(random);
  blas::Syrk(false, n, 2 * n, 1.0 / static_cast<double>(n), g.data(), 2 * n, 0.0, a.data(), n);
  Mirror(n, a.data());
  return a;
}

template <typename Root>
struct Solution {
  int info;
  std::vector<Root> q, l;
};

// Calls SolveInStages() with the lower triangle of a matrix. The elements above the diagonal are NaN, because the
// solver must not read them. Checks that the memory after the workspaces is unchanged.
template <typename Root>
Solution<Root> Solve(int64_t n, const Doubles& a, Tiles* tiles = nullptr) {
  const Root nan = std::numeric_limits<Root>::quiet_NaN();
  Solution<Root> s{0, std::vector<Root>(At(n * n), nan), std::vector<Root>(At(n))};
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) s.q[At(i * n + j)] = static_cast<Root>(a[At(i * n + j)]);
  }
  std::vector<Root> work(At(blas::EigenWork(n) + 8), nan);
  std::vector<int32_t> ints(At(blas::EigenIntWork(n) + 8), -77);
  s.info = SolveInStages(n, s.q.data(), s.l.data(), work.data(), ints.data(), tiles);
  for (int64_t i = 0; i < 8; ++i) {
    CHECK(std::isnan(work[At(blas::EigenWork(n) + i)]));
    CHECK(ints[At(blas::EigenIntWork(n) + i)] == -77);
  }
  return s;
}

// Checks that Q A = L Q and Q Q^T = I, where the rows of Q are the eigenvectors, and the diagonal matrix L contains the
// eigenvalues. Checks that the eigenvalues agree with those of LAPACK's dsyevd. The observed errors are at most half of
// the bounds.
template <typename Root>
void CheckSolution(int64_t n, const Doubles& matrix) {
  CAPTURE(n);
  Doubles a(matrix.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(static_cast<Root>(matrix[i]));
  const Solution<Root> s = Solve<Root>(n, a);
  REQUIRE(s.info == 0);
  const Doubles q(s.q.begin(), s.q.end());
  const double bound = (8 + 2 * std::sqrt(static_cast<double>(n))) * std::numeric_limits<Root>::epsilon();

  Doubles error(q.size());
  const blas::Product<double> by_transposed{false, true, 1, 0};
  blas::Gemm(by_transposed, n, n, n, q.data(), n, q.data(), n, error.data(), n);
  for (int64_t i = 0; i < n; ++i) error[At(i * n + i)] -= 1;
  CHECK(NormOf(error) <= bound * std::sqrt(static_cast<double>(n)));

  blas::Gemm(n, n, n, q.data(), n, a.data(), n, error.data(), n);
  for (int64_t i = 0; i < n; ++i) {
    const double l = static_cast<double>(s.l[At(i)]);
    for (int64_t j = 0; j < n; ++j) error[At(i * n + j)] -= l * q[At(i * n + j)];
  }
  CHECK(NormOf(error) <= bound * NormOf(a));

  Doubles reference = a;
  std::vector<double> l(At(n)), work(At(blas::EigenWork(n)));
  std::vector<int32_t> ints(At(blas::EigenIntWork(n)));
  REQUIRE(blas::Syevd(n, reference.data(), l.data(), work.data(), ints.data()) == 0);
  const double largest = std::fmax(std::fabs(l.front()), std::fabs(l.back()));
  CHECK(std::ranges::is_sorted(s.l));
  CHECK(LargestDifference(Doubles(s.l.begin(), s.l.end()), l) <= bound * largest);
}

class TwoThreads : public Tiles {
 public:
  void Run(int64_t count, Tile tile, void* argument) override {
    std::atomic<int64_t> next{0};
    const auto take = [&] {
      for (int64_t i; (i = next.fetch_add(1)) < count;) tile(argument, i);
    };
    std::thread other([&] {
      const BlasFixture blas;
      take();
    });
    take();
    other.join();
  }
};

}  // namespace

TEST_CASE_TEMPLATE("SolveInStages decomposes random matrices whose sizes are near those at which its algorithm changes",
                   Root, float, double) {
  const BlasFixture blas;
  for (const int64_t n : {1, 2, 3, 31, 32, 33, 34, 63, 64, 65, 97, 100, 129, 300, 383, 384, 385, 511, 512, 513, 641}) {
    CheckSolution<Root>(n, Wishart(n));
  }
}

TEST_CASE_TEMPLATE("SolveInStages decomposes matrices with difficult spectra", Root, float, double) {
  const BlasFixture blas;
  for (const int64_t n : {2, 33, 64, 100, 300, 520}) {
    const Doubles zero(At(n * n));
    CheckSolution<Root>(n, zero);
    Doubles diagonal = zero, graded = Wishart(n);
    for (int64_t i = 0; i < n; ++i) diagonal[At(i * n + i)] = static_cast<double>((i * 7) % n) - 3;
    CheckSolution<Root>(n, diagonal);
    CheckSolution<Root>(n, WithEigenvaluesBy(n, [](int64_t) { return 1.0; }));
    CheckSolution<Root>(n, WithEigenvaluesBy(n, [](int64_t i) { return i == 0 ? 1.0 : 0.0; }));
    CheckSolution<Root>(n, WithEigenvaluesBy(n, [](int64_t i) { return i % 3 == 0 ? 1.0 : 0.5; }));
    CheckSolution<Root>(n, WithEigenvaluesBy(n, [](int64_t i) { return 1 + 1e-9 * static_cast<double>(i); }));
    const double rate = -12.0 / static_cast<double>(n);
    CheckSolution<Root>(n,
                        WithEigenvaluesBy(n, [&](int64_t i) { return std::pow(10, rate * static_cast<double>(i)); }));
    // The diagonal elements decrease from about 2 to, if n is large, about 2e-12.
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) graded[At(i * n + j)] *= std::pow(10, rate / 2 * static_cast<double>(i + j));
    }
    CheckSolution<Root>(n, graded);
    // The elements of these matrices are near the limits of the range of float.
    if (std::is_same_v<Root, float>) {
      for (const double scale : {1e37, 1e-38}) CheckSolution<Root>(n, Scaled(Wishart(n), scale));
    }
  }
}

TEST_CASE_TEMPLATE("SolveInStages gives bit-identical results for any order of its tiles", Root, float, double) {
  const BlasFixture blas;
  for (const int64_t n : {100, 512, 700}) {
    CAPTURE(n);
    const Doubles a = Wishart(n);
    const int64_t unplanned = blas::UnplannedScratchRequests();
    const Solution<Root> serial = Solve<Root>(n, a);
    ReverseTiles reversed;
    TwoThreads threads;
    for (Tiles* const tiles : {static_cast<Tiles*>(&reversed), static_cast<Tiles*>(&threads)}) {
      const Solution<Root> tiled = Solve<Root>(n, a, tiles);
      CHECK(tiled.q == serial.q);
      CHECK(tiled.l == serial.l);
    }
    CHECK((reversed.most > 0) == (n >= 512));  // SolveInStages() uses tiles only for sizes of at least 512
    CHECK(blas::UnplannedScratchRequests() == unplanned);
  }
}

}  // namespace shampoo

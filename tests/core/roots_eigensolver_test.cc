// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <thread>
#include <type_traits>
#include <vector>

#include "core/blas/blas.h"
#include "core/blas/scratch.h"
#include "core/roots/eigensolver.h"
#include "core/roots/matrix.h"
#include "tests/core/symmetric_matrices.h"

namespace shampoo {
namespace {

using Matrix = std::vector<double>;
size_t Size(int64_t n) { return static_cast<size_t>(n); }

// Returns G G^T / n of an n x 2n matrix G of normal random numbers.
Matrix Wishart(int64_t n) {
  std::mt19937_64 random(Size(n));
  std::normal_distribution<double> normal;
  Matrix g(Size(2 * n * n)), a(Size(n * n));
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

// Solves with NaN above the diagonal, which must not matter, and checks that memory behind the workspaces is unchanged.
template <typename Root>
Solution<Root> Solve(int64_t n, const Matrix& a, Tiles* tiles = nullptr) {
  const Root nan = std::numeric_limits<Root>::quiet_NaN();
  Solution<Root> s{0, std::vector<Root>(Size(n * n), nan), std::vector<Root>(Size(n))};
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) s.q[Size(i * n + j)] = static_cast<Root>(a[Size(i * n + j)]);
  }
  std::vector<Root> work(Size(blas::EigenWork(n) + 8), nan);
  std::vector<int32_t> ints(Size(blas::EigenIntWork(n) + 8), -77);
  s.info = SolveInStages(n, s.q.data(), s.l.data(), work.data(), ints.data(), tiles);
  for (int64_t i = 0; i < 8; ++i) {
    CHECK(std::isnan(work[Size(blas::EigenWork(n) + i)]));
    CHECK(ints[Size(blas::EigenIntWork(n) + i)] == -77);
  }
  return s;
}

double Norm(const Matrix& a) {
  double sum = 0;
  for (const double element : a) sum += element * element;
  return std::sqrt(sum);
}

// Checks A Q = Q L, Q^T Q = I, and that the eigenvalues agree with those of dsyevd. The observed errors are at most
// half of the bounds.
template <typename Root>
void CheckSolution(int64_t n, const Matrix& matrix) {
  CAPTURE(n);
  Matrix a(matrix.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(static_cast<Root>(matrix[i]));
  const Solution<Root> s = Solve<Root>(n, a);
  REQUIRE(s.info == 0);
  const Matrix q(s.q.begin(), s.q.end());
  const double bound = (8 + 2 * std::sqrt(static_cast<double>(n))) * std::numeric_limits<Root>::epsilon();

  Matrix error(q.size());
  const blas::Product<double> by_transposed{false, true, 1, 0};
  blas::Gemm(by_transposed, n, n, n, q.data(), n, q.data(), n, error.data(), n);
  for (int64_t i = 0; i < n; ++i) error[Size(i * n + i)] -= 1;
  CHECK(Norm(error) <= bound * std::sqrt(static_cast<double>(n)));

  blas::Gemm(n, n, n, q.data(), n, a.data(), n, error.data(), n);
  for (int64_t i = 0; i < n; ++i) {
    const double l = static_cast<double>(s.l[Size(i)]);
    for (int64_t j = 0; j < n; ++j) error[Size(i * n + j)] -= l * q[Size(i * n + j)];
  }
  CHECK(Norm(error) <= bound * Norm(a));

  Matrix reference = a;
  std::vector<double> l(Size(n)), work(Size(blas::EigenWork(n)));
  std::vector<int32_t> ints(Size(blas::EigenIntWork(n)));
  REQUIRE(blas::Syevd(n, reference.data(), l.data(), work.data(), ints.data()) == 0);
  const double largest = std::fmax(std::fabs(l.front()), std::fabs(l.back()));
  double distance = 0;
  bool rising = true;
  for (int64_t i = 0; i < n; ++i) {
    distance = std::fmax(distance, std::fabs(l[Size(i)] - static_cast<double>(s.l[Size(i)])));
    rising = rising && (i == 0 || s.l[Size(i - 1)] <= s.l[Size(i)]);
  }
  CHECK(rising);
  CHECK(distance <= bound * largest);
}

blas::Scratch MakeScratch() {
  blas::Scratch scratch;
  CHECK(blas::Scratch::Create({}, &scratch).ok());
  return scratch;
}

// Scratch memory for BLAS calls of this thread while the object exists.
struct Inside {
  blas::Scratch scratch = MakeScratch();
  blas::ScratchUse use{&scratch};
};

class ReversedTiles : public Tiles {
 public:
  void Run(int64_t count, Tile tile, void* argument) override {
    for (int64_t i = count; i-- > 0;) tile(argument, i);
    tiles_run += count;
  }
  int64_t tiles_run = 0;
};

class TwoThreads : public Tiles {
 public:
  void Run(int64_t count, Tile tile, void* argument) override {
    std::atomic<int64_t> next{0};
    const auto take = [&] {
      for (int64_t i; (i = next.fetch_add(1)) < count;) tile(argument, i);
    };
    std::thread other([&] {
      const Inside inside;
      take();
    });
    take();
    other.join();
  }
};

}  // namespace

TEST_CASE_TEMPLATE(
    "the eigensolver in stages solves random matrices of sizes near those at which its algorithm changes", Root, float,
    double) {
  const Inside inside;
  for (const int64_t n : {1, 2, 3, 31, 32, 33, 34, 63, 64, 65, 97, 100, 129, 300, 383, 384, 385, 511, 512, 513, 641}) {
    CheckSolution<Root>(n, Wishart(n));
  }
}

TEST_CASE_TEMPLATE("the eigensolver in stages solves matrices with difficult spectra", Root, float, double) {
  const Inside inside;
  for (const int64_t n : {2, 33, 64, 100, 300, 520}) {
    const Matrix zero(Size(n * n));
    CheckSolution<Root>(n, zero);
    Matrix diagonal = zero, graded = Wishart(n);
    for (int64_t i = 0; i < n; ++i) diagonal[Size(i * n + i)] = static_cast<double>((i * 7) % n) - 3;
    CheckSolution<Root>(n, diagonal);
    CheckSolution<Root>(n, WithEigenvaluesBy(n, [](int64_t) { return 1.0; }));
    CheckSolution<Root>(n, WithEigenvaluesBy(n, [](int64_t i) { return i == 0 ? 1.0 : 0.0; }));
    CheckSolution<Root>(n, WithEigenvaluesBy(n, [](int64_t i) { return i % 3 == 0 ? 1.0 : 0.5; }));
    CheckSolution<Root>(n, WithEigenvaluesBy(n, [](int64_t i) { return 1 + 1e-9 * static_cast<double>(i); }));
    const double rate = -12.0 / static_cast<double>(n);
    CheckSolution<Root>(n,
                        WithEigenvaluesBy(n, [&](int64_t i) { return std::pow(10, rate * static_cast<double>(i)); }));
    // The diagonal elements decrease from about 1 to about 1e-12.
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) graded[Size(i * n + j)] *= std::pow(10, rate / 2 * static_cast<double>(i + j));
    }
    CheckSolution<Root>(n, graded);
    // At the limits of the range of float.
    if (std::is_same_v<Root, float>) {
      for (const double scale : {1e37, 1e-38}) {
        Matrix scaled = Wishart(n);
        for (double& element : scaled) element *= scale;
        CheckSolution<Root>(n, scaled);
      }
    }
  }
}

TEST_CASE_TEMPLATE("the eigensolver in stages gives bit-identical results for any order of its tiles", Root, float,
                   double) {
  const Inside inside;
  for (const int64_t n : {100, 512, 700}) {
    CAPTURE(n);
    const Matrix a = Wishart(n);
    const int64_t unplanned = blas::UnplannedScratchRequests();
    const Solution<Root> serial = Solve<Root>(n, a);
    ReversedTiles reversed;
    TwoThreads threads;
    for (Tiles* const tiles : {static_cast<Tiles*>(&reversed), static_cast<Tiles*>(&threads)}) {
      const Solution<Root> tiled = Solve<Root>(n, a, tiles);
      CHECK(tiled.q == serial.q);
      CHECK(tiled.l == serial.l);
    }
    CHECK((reversed.tiles_run > 0) == (n >= 512));
    CHECK(blas::UnplannedScratchRequests() == unplanned);
  }
}

}  // namespace shampoo

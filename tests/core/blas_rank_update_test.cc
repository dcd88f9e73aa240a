// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "core/blas/rank_update.h"
#include "tests/core/blas_fixture.h"

namespace shampoo::blas {
namespace {

struct Case {
  int64_t n, k;
  bool transposed;
};

template <typename Run>
void Check(const Case& c, double beta, Run&& run) {
  CAPTURE(c.n);
  CAPTURE(c.k);
  CAPTURE(c.transposed);
  std::mt19937_64 random(static_cast<uint64_t>(c.n * 31 + c.k));
  std::uniform_real_distribution<double> uniform(-1, 1);
  const int64_t lda = (c.transposed ? c.n : c.k) + 3;
  const int64_t ldc = c.n + 1;
  std::vector<double> a(static_cast<size_t>((c.transposed ? c.k : c.n) * lda));
  std::vector<double> before(static_cast<size_t>(c.n * ldc));
  for (auto* values : {&a, &before}) std::ranges::generate(*values, [&] { return uniform(random); });
  std::vector<double> after = before;
  run(RankUpdate<double>{c.transposed, c.n, c.k, 0.25, a.data(), lda, beta, after.data(), ldc});
  const auto at = [&](int64_t i, int64_t j) {
    return a[static_cast<size_t>(c.transposed ? j * lda + i : i * lda + j)];
  };
  double worst = 0;
  bool touched_above = false;
  // Checks the whole lower triangle of a small matrix. In a large matrix, checks the elements near the diagonal, the
  // rows and columns near multiples of 256, and a sample of the other elements.
  for (int64_t i = 0; i < c.n; ++i) {
    for (int64_t j = 0; j < ldc; ++j) {
      const auto here = static_cast<size_t>(i * ldc + j);
      if (j > i) {
        touched_above = touched_above || after[here] != before[here];
        continue;
      }
      if (c.n > 300 && i - j > 1 && i % 256 > 1 && j % 256 > 1 && (i * 7 + j) % 41 != 0) continue;
      double sum = 0;
      for (int64_t l = 0; l < c.k; ++l) sum += at(i, l) * at(j, l);
      worst = std::max(worst, std::fabs(after[here] - (beta * before[here] + 0.25 * sum)));
    }
  }
  CHECK(worst < 1e-12 * static_cast<double>(c.k + 1));
  CHECK_FALSE(touched_above);
}

TEST_CASE("rank updates by GEMM and by SYRK agree with the definition and write only the lower triangle") {
  const BlasFixture blas;
  for (const int64_t n : {1, 5, 31, 32, 33, 64, 65, 97, 128, 200}) {
    for (const bool transposed : {false, true}) {
      for (const double beta : {0.0, 0.75}) {
        const Case c{n, 17, transposed};
        Check(c, beta, [](const auto& update) { UpdateByGemm(update); });
        Check(c, beta, [](const auto& update) { UpdateBySyrk(update); });
        Check(c, beta, [](const auto& update) { Update(update, nullptr); });
      }
    }
  }
}

TEST_CASE("a large rank update is divided into tiles, and the result is bit-identical for any order of the tiles") {
  const BlasFixture blas;
  for (const Case& c : {Case{1024, 300, false}, Case{1100, 230, true}, Case{1540, 128, false}}) {
    ReverseTiles reverse;
    const auto result_with = [&](Tiles* tiles) {
      std::vector<double> result;
      Check(c, 0.5, [&](const auto& update) {
        Update(update, tiles);
        result.assign(update.c, update.c + c.n * (c.n + 1));
      });
      return result;
    };
    CHECK(result_with(&reverse) == result_with(nullptr));
    CHECK(reverse.most >= 3);
  }
  // With k = 10, the update has too few multiplications to be divided.
  ReverseTiles reverse;
  Check({1024, 10, false}, 0.5, [&](const auto& update) { Update(update, &reverse); });
  CHECK(reverse.most == 0);
}

}  // namespace
}  // namespace shampoo::blas

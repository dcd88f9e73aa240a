// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/roots.h"

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "core/blas/blas.h"
#include "core/blas/rank_update.h"
#include "core/blas/scratch.h"
#include "core/roots/ladder.h"
#include "tools/bench/fail.h"
#include "tools/bench/thread_time.h"
#include "tools/bench/work.h"

namespace bench {
namespace {

using FloatVector = std::vector<float>;

double Median(std::vector<double>* values) {
  const auto middle = values->begin() + static_cast<int64_t>(values->size() / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

// Returns G G^T / n for an n x 2n matrix G of normal random numbers.
FloatVector RandomFactor(int64_t n) {
  std::mt19937_64 random(static_cast<uint64_t>(n));
  std::normal_distribution<float> normal;
  FloatVector g(static_cast<size_t>(2 * n * n));
  FloatVector a(static_cast<size_t>(n * n));
  for (float& element : g) element = normal(random);
  shampoo::blas::Syrk(false, n, 2 * n, 1 / static_cast<float>(n), g.data(), 2 * n, 0.0f, a.data(), n);
  shampoo::Mirror(n, a.data());
  return a;
}

struct Times {
  double root, by_eigenvectors, product, symmetric;  // seconds
};

Times MeasureSize(int64_t n, int min_runs) {
  using namespace shampoo;
  const FloatVector a = RandomFactor(n);
  FloatVector x(a.size());
  FloatVector own(static_cast<size_t>(RootWorkspace<float>::Elements(RootMethod::kEigen, n)));
  std::vector<double> wide(static_cast<size_t>(RootWorkspace<double>::Elements(RootMethod::kEigen, n)));
  std::vector<int32_t> ints(static_cast<size_t>(RootWorkspace<float>::Ints(n)));
  RecoveryMemory recovery;
  recovery.workspace = {wide.data(), ints.data()};
  const RootMemory memory{Dtype::kF32, own.data(), ints.data(), &recovery};
  const auto root = [&](bool eigenvectors) {
    RootSpec spec;
    spec.exponent = -0.5;
    spec.numerator = 2;
    spec.relative_epsilon = 1e-5;
    spec.eigenvectors = eigenvectors;
    const RootOutcome outcome =
        ComputeRoot(spec, SymmetricView<float>{n, a.data()}, memory, std::numeric_limits<float>::max(),
                    SymmetricTarget<float>::Full(n, x.data()));
    if (!outcome.ok() || outcome.rungs_used != 0) Fail("the default method failed on a random factor matrix");
  };
  std::vector<double> times[4];
  const auto time = [&](int what, int64_t count, const auto& work) {
    const double start = ThreadSeconds();
    for (int64_t i = 0; i < count; ++i) work();
    times[what].push_back((ThreadSeconds() - start) / static_cast<double>(count));
  };
  // Short operations are repeated, so that each timed interval is about 100 microseconds or longer. With min_runs 10,
  // the runs for one size take at least about half a second in total.
  const int64_t roots_at_once = std::max<int64_t>(1, 128 * 128 / (n * n));
  const int64_t products_at_once = std::max<int64_t>(1, 256 * 256 * 256 / (n * n * n) / 2);
  double total = 0;
  for (int run = -1; run < min_runs || (total < 0.05 * min_runs && run < 2000); ++run) {
    const double start = ThreadSeconds();
    time(0, roots_at_once, [&] { root(false); });
    time(1, roots_at_once, [&] { root(true); });
    time(2, products_at_once, [&] { blas::Gemm(n, n, n, a.data(), n, a.data(), n, x.data(), n); });
    time(3, products_at_once, [&] {
      blas::Update<float>({false, n, n, 1.0f, a.data(), n, 0.0f, x.data(), n}, nullptr);
    });
    if (run < 0) {
      for (auto& list : times) list.clear();
    }
    total += ThreadSeconds() - start;
  }
  return {Median(&times[0]), Median(&times[1]), Median(&times[2]), Median(&times[3])};
}

}  // namespace

void MeasureRoots(int min_runs) {
  shampoo::blas::Scratch scratch;
  shampoo::blas::ScratchExtent extent;
  extent.Add(512, 1024, sizeof(double));
  if (!shampoo::blas::Scratch::Create(extent, &scratch).ok()) Fail("cannot allocate memory for BLAS");
  const shampoo::blas::ScratchUse use(&scratch);
  std::puts(
      "\nOne inverse square root in float32 on one thread. Rates count 8/3 n^3 flops for a root, 2 n^3 for a product "
      "and\n"
      "n^3 for a symmetric product (A A^T, one triangle). The column \"root, ms\" has the time without eigenvectors,\n"
      "and \"by eigenvectors, ms\" the time with eigenvectors. The ratio is the second time divided by the first.\n"
      "The last two columns divide the rate of the root by the rates of the two products.\n\n"
      "| n | root, ms | by eigenvectors, ms | ratio | root, Gflop/s | of the product's rate | of the symmetric "
      "product's "
      "rate |\n"
      "|---:|---:|---:|---:|---:|---:|---:|");
  for (const int64_t n : {32, 64, 96, 128, 192, 256, 384, 512}) {
    const Times times = MeasureSize(n, min_runs);
    const auto size = static_cast<double>(n);
    const double cube = size * size * size;
    const double rate = RootFlops(size, true) / times.root;
    std::printf("| %" PRId64 " | %.4f | %.4f | %.2f | %.1f | %.0f %% | %.0f %% |\n", n, 1e3 * times.root,
                1e3 * times.by_eigenvectors, times.by_eigenvectors / times.root, rate / 1e9,
                100 * rate / (2 * cube / times.product), 100 * rate / (cube / times.symmetric));
    std::fflush(stdout);
  }
}

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/orthogonalize.h"

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "core/blas/blas.h"
#include "core/blas/scratch.h"
#include "core/config/ns_coefficients.h"
#include "core/roots/orthogonalize.h"
#include "tools/bench/fail.h"
#include "tools/bench/machine.h"
#include "tools/bench/thread_time.h"

namespace bench {
namespace {

constexpr int kSteps = 5;

// Returns the flops of kSteps Newton-Schulz steps on a matrix X, where s = min(rows, columns), l = max(rows, columns)
// and A is the s x s matrix X X^T or X^T X. A step computes A, A A^T and a product of X with an s x s matrix. The last
// product has 2 s^2 l flops. A and A A^T are symmetric, so only half of their flops are counted: s^2 l and s^3.
double Flops(int64_t rows, int64_t columns) {
  const auto s = static_cast<double>(std::min(rows, columns));
  const auto l = static_cast<double>(std::max(rows, columns));
  return kSteps * (s * s * l + s * s * s + 2 * s * s * l);
}

struct IterationTimes {
  double steps, product;  // seconds
};

IterationTimes MeasureShape(const shampoo::Settings& settings, int64_t rows, int64_t columns, int min_runs) {
  using Memory = shampoo::OrthogonalizeMemory<float>;
  std::mt19937_64 random(static_cast<uint64_t>(rows * columns));
  std::normal_distribution<float> normal;
  std::vector<float> start(static_cast<size_t>(rows * columns));
  for (float& element : start) element = normal(random);
  std::vector<float> memory(
      static_cast<size_t>(Memory::Elements(shampoo::Orthogonalization::kNewtonSchulz, rows, columns)));
  std::vector<float> x = start;
  std::vector<float> gram(static_cast<size_t>(std::min(rows, columns) * std::min(rows, columns)));
  IterationTimes shortest{1e300, 1e300};
  const auto time = [](double* best, const auto& work) {
    const double began = ThreadSeconds();
    work();
    const double taken = ThreadSeconds() - began;
    *best = std::min(*best, taken);
    return taken;
  };
  double total = 0;
  for (int run = 0; run < min_runs || (total < 0.05 * min_runs && run < 2000); ++run) {
    x = start;
    total += time(&shortest.steps, [&] {
      if (!shampoo::Orthogonalize<float>(settings, rows, columns, x.data(), {memory.data()})) Fail("LAPACK failed");
    });
    // One product of X with an s x s matrix. The table compares the flop rate of the steps with the rate of this
    // product. If X is square, the product has half of the flops of a step.
    const int64_t s = std::min(rows, columns);
    total += time(&shortest.product, [&] {
      if (rows <= columns) {
        shampoo::blas::Gemm(s, columns, s, gram.data(), s, start.data(), columns, x.data(), columns);
      } else {
        shampoo::blas::Gemm(rows, s, s, start.data(), s, gram.data(), s, x.data(), s);
      }
    });
  }
  return shortest;
}

}  // namespace

void MeasureOrthogonalization(int min_runs) {
  shampoo::blas::Scratch scratch;
  if (!shampoo::blas::Scratch::Create({}, &scratch).ok()) Fail("cannot allocate memory for BLAS");
  const shampoo::blas::ScratchUse use(&scratch);
  shampoo::Settings settings;
  settings.ns_steps = kSteps;
  std::string canonical;
  if (!shampoo::ParseNsCoefficients("polar_express", &settings.ns_coefficients, &canonical))
    Fail("ns_coefficients=polar_express is unknown");
  Machine machine = MeasureMachine(1);
  std::printf(
      "\nFive steps of Newton-Schulz on a matrix X in float32, on one thread (ns_coefficients=polar_express). Only\n"
      "half of the flops of symmetric products are counted. Times are those of the shortest run. Peak rate of a\n"
      "thread: %.1f Gflop/s at the start.\n\n"
      "| shape | ms | Gflop/s | of the peak rate | of the rate of one product with X |\n|---|---:|---:|---:|---:|\n",
      machine.peak / 1e9);
  constexpr int64_t kShapes[][2] = {{128, 128},  {256, 256},  {512, 512},  {1024, 1024},
                                    {2048, 512}, {512, 2048}, {1024, 256}, {64, 1024}};
  for (const auto& [rows, columns] : kShapes) {
    const IterationTimes shortest = MeasureShape(settings, rows, columns, min_runs);
    MeasureAgain(&machine);
    const double rate = Flops(rows, columns) / shortest.steps;
    const auto small = static_cast<double>(std::min(rows, columns));
    const double of_product = 2 * small * small * static_cast<double>(std::max(rows, columns)) / shortest.product;
    std::printf("| %" PRId64 " x %" PRId64 " | %.3f | %.1f | %.0f %% | %.0f %% |\n", rows, columns,
                1e3 * shortest.steps, rate / 1e9, 100 * rate / machine.peak, 100 * rate / of_product);
    std::fflush(stdout);
  }
}

}  // namespace bench

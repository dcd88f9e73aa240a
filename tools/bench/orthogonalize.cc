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

#include "core/blas/scratch.h"
#include "core/config/ns_coefficients.h"
#include "core/roots/orthogonalize.h"
#include "tools/bench/fail.h"
#include "tools/bench/machine.h"
#include "tools/bench/thread_time.h"

namespace bench {
namespace {

constexpr int kSteps = 5;

// Of kSteps steps on an r x c matrix with s = min(r, c) and l = max(r, c): X X^T and A A^T are symmetric, so only half
// of the 2 s^2 l and 2 s^3 flops are counted; the product with X has 2 s^2 l.
double Flops(int64_t rows, int64_t columns) {
  const auto s = static_cast<double>(std::min(rows, columns));
  const auto l = static_cast<double>(std::max(rows, columns));
  return kSteps * (s * s * l + s * s * s + 2 * s * s * l);
}

double MeasureShape(const shampoo::Settings& settings, int64_t rows, int64_t columns, int min_runs) {
  using Memory = shampoo::OrthogonalizeMemory<float>;
  std::mt19937_64 random(static_cast<uint64_t>(rows * columns));
  std::normal_distribution<float> normal;
  std::vector<float> start(static_cast<size_t>(rows * columns));
  for (float& element : start) element = normal(random);
  std::vector<float> memory(
      static_cast<size_t>(Memory::Elements(shampoo::Orthogonalization::kNewtonSchulz, rows, columns)));
  std::vector<float> x;
  std::vector<double> seconds;
  double total = 0;
  for (int run = -1; run < min_runs || (total < 0.05 * min_runs && run < 2000); ++run) {
    x = start;
    const double began = ThreadSeconds();
    if (!shampoo::Orthogonalize<float>(settings, rows, columns, x.data(), {memory.data()})) Fail("LAPACK failed");
    const double taken = ThreadSeconds() - began;
    if (run < 0) continue;  // not warm
    seconds.push_back(taken);
    total += taken;
  }
  return Median(&seconds);
}

}  // namespace

void MeasureOrthogonalization(int min_runs) {
  shampoo::blas::Scratch scratch;
  if (!shampoo::blas::Scratch::Create({}, &scratch).ok()) Fail("not enough memory");
  const shampoo::blas::ScratchUse use(&scratch);
  shampoo::Settings settings;
  settings.ns_steps = kSteps;
  std::string canonical;
  if (!shampoo::ParseNsCoefficients("polar_express", &settings.ns_coefficients, &canonical)) Fail("no coefficients");
  Machine machine = MeasureMachine(1);
  std::printf(
      "\nFive steps of Newton-Schulz in float32 on one thread (ns_coefficients polar_express). Of the symmetric\n"
      "products only half of the flops are counted. Peak rate of a thread: %.1f Gflop/s at the start.\n\n"
      "| shape | ms | Gflop/s | of the peak rate |\n|---|---:|---:|---:|\n",
      machine.peak / 1e9);
  constexpr int64_t kShapes[][2] = {{128, 128},  {256, 256},  {512, 512},  {1024, 1024},
                                    {2048, 512}, {512, 2048}, {1024, 256}, {64, 1024}};
  for (const auto& [rows, columns] : kShapes) {
    const double seconds = MeasureShape(settings, rows, columns, min_runs);
    MeasureAgain(&machine);
    const double rate = Flops(rows, columns) / seconds;
    std::printf("| %" PRId64 " x %" PRId64 " | %.3f | %.1f | %.0f %% |\n", rows, columns, 1e3 * seconds, rate / 1e9,
                100 * rate / machine.peak);
    std::fflush(stdout);
  }
}

}  // namespace bench

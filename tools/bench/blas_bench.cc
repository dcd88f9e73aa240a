// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Measures, on one thread, the flops per second of the matrix products that a step uses. Decisions 9 (tiles) and 10
// (symmetric matrices) in docs/adr rely on these rates. symm_upper and syrk_lower store a symmetric n x n matrix in one
// triangle of an array that has rows of n + 1 elements. In the arrays of all other operations, rows have n elements.
// squares_of_gemm computes the same triangle as syrk, by calls of GEMM (UpdateByGemm).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <vector>

#include "core/blas/blas.h"
#include "core/blas/rank_update.h"
#include "core/blas/scratch.h"

namespace shampoo {
namespace {

struct Matrices {
  explicit Matrices(int64_t size) : n(size), a(static_cast<size_t>(size * (size + 1))), b(a.size()), c(a.size()) {
    std::mt19937_64 random(static_cast<uint64_t>(size));
    std::normal_distribution<float> normal;
    for (float& element : a) element = normal(random);
    for (float& element : b) element = normal(random);
  }
  int64_t n;
  std::vector<float> a, b, c;
};

struct Operation {
  const char* name;
  double flops_of_cube;  // number of flops / n^3; if the result is symmetric, only those for one triangle
  void (*run)(Matrices& m);
};

const Operation kOperations[] = {
    {"gemm", 2, [](Matrices& m) { blas::Gemm(m.n, m.n, m.n, m.a.data(), m.n, m.b.data(), m.n, m.c.data(), m.n); }},
    {"symm_upper", 2,
     [](Matrices& m) { blas::Symm(false, m.n, m.n, m.a.data() + 1, m.n + 1, m.b.data(), m.n, m.c.data(), m.n); }},
    {"syrk", 1,
     [](Matrices& m) {
       blas::UpdateBySyrk<float>({false, m.n, m.n, 0.01F, m.a.data(), m.n, 0.9F, m.c.data(), m.n});
     }},
    {"syrk_lower", 1,
     [](Matrices& m) {
       blas::UpdateBySyrk<float>({false, m.n, m.n, 0.01F, m.a.data(), m.n, 0.9F, m.c.data(), m.n + 1});
     }},
    {"squares_of_gemm", 1,
     [](Matrices& m) {
       blas::UpdateByGemm<float>({false, m.n, m.n, 0.01F, m.a.data(), m.n, 0.9F, m.c.data(), m.n});
     }},
};

void Measure(benchmark::State& state, const Operation& operation) {
  const int64_t n = state.range(0);
  blas::Scratch scratch;
  blas::ScratchExtent extent;
  extent.Add(n, n, sizeof(float));
  if (!blas::Scratch::Create(extent, &scratch).ok()) {
    return state.SkipWithError("cannot allocate memory for BLAS");
  }
  const blas::ScratchUse use(&scratch);
  Matrices matrices(n);
  for (auto _ : state) operation.run(matrices);
  const auto cube = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  state.counters["flops"] =
      benchmark::Counter(operation.flops_of_cube * cube, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace
}  // namespace shampoo

int main(int argc, char** argv) {
  for (const shampoo::Operation& operation : shampoo::kOperations) {
    auto* const bench = benchmark::RegisterBenchmark(
        operation.name, [&operation](benchmark::State& state) { shampoo::Measure(state, operation); });
    for (const int64_t n : {64, 128, 256, 512, 1024}) bench->Arg(n);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

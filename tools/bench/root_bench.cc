// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Measures the time of one inverse 4th root on one thread, by root method, dtype and size of the matrix. The timed
// function is ComputeRoot() (core/roots/ladder.h); allocations are not timed. docs/measure/roots_table.py makes a table
// of the JSON that this program prints with --benchmark_format=json.
#include <benchmark/benchmark.h>
#include <lapacke.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/base/convert.h"
#include "core/blas/blas.h"
#include "core/blas/scratch.h"
#include "core/roots/ladder.h"

namespace shampoo {
namespace {

constexpr double kCondition = 1e4;
constexpr double kEpsilon = 1e-6;

struct Method {
  const char* name;
  RootMethod method;
};
constexpr Method kMethods[] = {
    {"eigen", RootMethod::kEigen}, {"newton", RootMethod::kNewton}, {"higher_order", RootMethod::kHigherOrder}};

// Returns Q diag(l) Q^T with a random orthogonal Q and logarithmically spaced eigenvalues l_i from 1 / kCondition to 1.
// A ScratchUse must exist on this thread.
std::vector<double> MakeMatrix(int64_t n) {
  const auto count = static_cast<size_t>(n * n);
  const auto size = static_cast<lapack_int>(n);
  std::mt19937_64 random(static_cast<uint64_t>(n));
  std::normal_distribution<double> normal;
  std::vector<double> q(count);
  std::vector<double> tau(static_cast<size_t>(n));
  for (double& element : q) element = normal(random);
  if (LAPACKE_dgeqrf(LAPACK_COL_MAJOR, size, size, q.data(), size, tau.data()) != 0 ||
      LAPACKE_dorgqr(LAPACK_COL_MAJOR, size, size, size, q.data(), size, tau.data()) != 0) {
    return {};
  }
  // Row i of q is an eigenvector q_i. The result is A = B^T B, where row i of B is sqrt(l_i) q_i.
  for (int64_t i = 0; i < n; ++i) {
    const double root = std::pow(kCondition, -0.5 * static_cast<double>(i) / static_cast<double>(n - 1));
    for (int64_t j = 0; j < n; ++j) q[static_cast<size_t>(i * n + j)] *= root;
  }
  std::vector<double> a(count);
  blas::Syrk(true, n, n, 1.0, q.data(), n, 0.0, a.data(), n);
  Mirror(n, a.data());
  return a;
}

// Returns the n x n matrix, which is the same for all methods and dtypes. The first call with a new n makes the matrix.
const std::vector<double>& MatrixOf(int64_t n) {
  static std::map<int64_t, std::vector<double>> matrices;
  auto found = matrices.find(n);
  if (found == matrices.end()) found = matrices.emplace(n, MakeMatrix(n)).first;
  return found->second;
}

RootSpec SpecOf(RootMethod method) {
  RootSpec spec;
  spec.method = method;
  spec.numerator = 4;
  spec.exponent = -0.25;
  spec.epsilon = kEpsilon;
  return spec;
}

template <typename Real>
void BenchRoot(benchmark::State& state, RootMethod method) {
  const int64_t n = state.range(0);
  const auto count = static_cast<size_t>(n * n);
  blas::Scratch scratch;
  blas::ScratchExtent extent;
  extent.Add(n, n, sizeof(double));
  const Status created = blas::Scratch::Create(extent, &scratch);
  if (!created.ok()) {
    state.SkipWithError(created.message().c_str());
    return;
  }
  blas::ScratchUse use(&scratch);
  const std::vector<double>& matrix = MatrixOf(n);
  if (matrix.size() != count) {
    state.SkipWithError("the random orthogonal matrix could not be generated");
    return;
  }
  const std::vector<Real> a(matrix.begin(), matrix.end());
  std::vector<Real> x(count);
  std::vector<Real> own(static_cast<size_t>(RootWorkspace<Real>::Elements(method, n)));
  std::vector<int32_t> ints(static_cast<size_t>(RootWorkspace<Real>::Ints(n)));
  std::vector<double> wide(static_cast<size_t>(RootWorkspace<double>::Elements(method, n)));
  RecoveryMemory recovery;
  recovery.workspace = {wide.data(), ints.data()};
  const RootMemory memory{DtypeOf<Real>(), own.data(), ints.data(), &recovery};
  const RootSpec spec = SpecOf(method);
  const double limit = std::numeric_limits<Real>::max();

  RootOutcome outcome;
  for (auto _ : state) {
    outcome =
        ComputeRoot(spec, SymmetricView<Real>{n, a.data()}, memory, limit, SymmetricTarget<Real>::Full(n, x.data()));
    benchmark::DoNotOptimize(x.data());
    benchmark::ClobberMemory();
  }
  // If another rung computed the root, the measured time is not the time of the method.
  if (!outcome.ok() || outcome.rungs_used != 0) state.SkipWithError("the method failed on this matrix");
  state.counters["iterations_of_root"] = outcome.iterations;
  state.counters["converged"] = outcome.converged;
}

template <typename Real>
void Register(const char* dtype) {
  for (const Method& method : kMethods) {
    const std::string name = std::string(method.name) + "/" + dtype;
    benchmark::RegisterBenchmark(name.c_str(), &BenchRoot<Real>, method.method)
        ->Arg(32)
        ->Arg(64)
        ->Arg(128)
        ->Arg(256)
        ->Arg(512)
        ->Arg(1024)
        ->Arg(2048)
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace shampoo

int main(int argc, char** argv) {
  shampoo::Register<float>("f32");
  shampoo::Register<double>("f64");
  const shampoo::blas::Identity blas = shampoo::blas::Identify();
  benchmark::AddCustomContext("blas", blas.library + ", kernel " + blas.kernel);
  benchmark::AddCustomContext("matrix", "condition 1e4, epsilon 1e-6, inverse 4th root, root_order=3");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

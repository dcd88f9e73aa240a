// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks that concurrent calls of BLAS and LAPACK give results bit-identical to those of a single thread. The serial
// build of OpenBLAS guarantees this only with libshampoo's scratch memory (core/blas/scratch.h).
// Usage: blas_concurrency <calls of each kind> [--expect-differences]
// With the option, which is for a build without that scratch memory, the program must find differences. It repeats all
// calls until results differ, at most forty times.
#include <lapacke.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "core/blas/blas.h"
#include "core/blas/scratch.h"
#include "tests/embed/require.h"

namespace shampoo {
namespace {

constexpr int kInputs = 16;
constexpr int kProduct = 96;  // size of the matrices that Gemm() and Syrk() multiply
constexpr int kEigen = 64;    // size of the matrices whose eigenvectors are computed

// Returns a symmetric n x n matrix.
template <typename Real>
std::vector<Real> Input(int which, int n) {
  std::vector<Real> a(static_cast<size_t>(n * n));
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j <= i; ++j) {
      const auto value = static_cast<Real>(std::sin(0.7 * (i + 1) * (j + 2) + which) + (i == j ? 3 : 0));
      a[static_cast<size_t>(i * n + j)] = a[static_cast<size_t>(j * n + i)] = value;
    }
  }
  return a;
}

template <typename Real>
struct Inputs {
  Inputs(int n) {
    for (int i = 0; i < kInputs; ++i) matrix.push_back(Input<Real>(i, n));
  }
  std::vector<std::vector<Real>> matrix;
};

const Inputs<float>& Products() {
  static const Inputs<float> inputs(kProduct);
  return inputs;
}

template <typename Real>
const Inputs<Real>& Eigenproblems() {
  static const Inputs<Real> inputs(kEigen);
  return inputs;
}

// Memory of one thread for calls of Syevd.
template <typename Real>
struct Memory {
  std::vector<Real> a = std::vector<Real>(kEigen * kEigen);
  std::vector<Real> work = std::vector<Real>(static_cast<size_t>(blas::EigenWork(kEigen)));
  std::vector<int32_t> int_work = std::vector<int32_t>(static_cast<size_t>(blas::EigenIntWork(kEigen)));
};

void Gemm(int input, std::vector<double>* result) {
  auto* const c = reinterpret_cast<float*>(result->data());
  blas::Gemm(kProduct, kProduct, kProduct, Products().matrix[static_cast<size_t>(input)].data(), kProduct,
             Products().matrix[static_cast<size_t>((input + 1) % kInputs)].data(), kProduct, c, kProduct);
}

void Syrk(int input, std::vector<double>* result) {
  auto* const c = reinterpret_cast<float*>(result->data());
  blas::Syrk(false, kProduct, kProduct, 1, Products().matrix[static_cast<size_t>(input)].data(), kProduct, 0, c,
             kProduct);
}

// Writes the eigenvectors to `result`, followed by the eigenvalues.
template <typename Real>
void Syevd(int input, std::vector<double>* result) {
  thread_local Memory<Real> memory;
  auto* const out = reinterpret_cast<Real*>(result->data());
  memory.a = Eigenproblems<Real>().matrix[static_cast<size_t>(input)];
  const int info =
      blas::Syevd(kEigen, memory.a.data(), out + kEigen * kEigen, memory.work.data(), memory.int_work.data());
  std::copy(memory.a.begin(), memory.a.end(), out);
  if (info != 0) out[0] = static_cast<Real>(1e9 + info);
}

// Syevr is tested, too, because it uses the scratch memory in another way than Syevd.
void Syevr(int input, std::vector<double>* result) {
  constexpr int kWork = 66 * kEigen;
  constexpr int kIntWork = 10 * kEigen;
  thread_local std::vector<double> a;
  thread_local std::vector<double> work(kWork);
  thread_local std::vector<int32_t> int_work(kIntWork);
  thread_local std::vector<int32_t> support(2 * kEigen);
  a = Eigenproblems<double>().matrix[static_cast<size_t>(input)];
  double* const z = result->data();
  int32_t found = 0;
  const int info = LAPACKE_dsyevr_work(LAPACK_COL_MAJOR, 'V', 'A', 'U', kEigen, a.data(), kEigen, 0, 0, 0, 0, 0, &found,
                                       z + kEigen * kEigen, z, kEigen, support.data(), work.data(), kWork,
                                       int_work.data(), kIntWork);
  if (info != 0 || found != kEigen) z[0] = 1e9 + info;
}

struct Kind {
  const char* name;
  void (*call)(int input, std::vector<double>* result);
};
constexpr Kind kKinds[] = {
    {"sgemm", Gemm}, {"ssyrk", Syrk}, {"ssyevd", Syevd<float>}, {"dsyevd", Syevd<double>}, {"dsyevr", Syevr}};

std::vector<double> EmptyResult() { return std::vector<double>(kProduct * kProduct, 0.0); }

void CreateScratch(blas::Scratch* scratch) {
  blas::ScratchExtent extent;
  extent.Add(kProduct, kProduct, sizeof(double));
  REQUIRE(blas::Scratch::Create(extent, scratch).ok(), "no scratch memory");
}

// Makes `calls` calls on `threads` threads. Returns how many results differ from the serial results.
int64_t Differences(const Kind& kind, const std::vector<std::vector<double>>& serial, int threads, int64_t calls) {
  std::atomic<int64_t> differences{0};
  std::atomic<int> waiting{threads};
  auto run = [&](int id) {
    blas::Scratch scratch;
    CreateScratch(&scratch);
    blas::ScratchUse use(&scratch);
    std::vector<double> result = EmptyResult();
    --waiting;
    while (waiting > 0) std::this_thread::yield();
    for (int64_t i = id; i < calls; i += threads) {
      const auto input = static_cast<int>(i % kInputs);
      kind.call(input, &result);
      const std::vector<double>& expected = serial[static_cast<size_t>(input)];
      differences += std::memcmp(result.data(), expected.data(), result.size() * sizeof(double)) != 0;
    }
  };
  std::vector<std::thread> running;
  for (int id = 0; id < threads; ++id) running.emplace_back(run, id);
  for (std::thread& thread : running) thread.join();
  return differences;
}

std::vector<std::vector<double>> Serial(const Kind& kind) {
  blas::Scratch scratch;
  CreateScratch(&scratch);
  blas::ScratchUse use(&scratch);
  std::vector<std::vector<double>> results(kInputs, EmptyResult());
  for (int input = 0; input < kInputs; ++input) kind.call(input, &results[static_cast<size_t>(input)]);
  return results;
}

int64_t DifferencesOfKind(const Kind& kind, const std::vector<int>& thread_counts, int64_t calls) {
  const std::vector<std::vector<double>> serial = Serial(kind);
  int64_t all = 0;
  for (const int threads : thread_counts) {
    const int64_t found = Differences(kind, serial, threads, calls);
    all += found;
    std::cout << kind.name << ", " << threads << " threads: " << found << " of " << calls << " differ" << std::endl;
  }
  return all;
}

}  // namespace
}  // namespace shampoo

int main(int argc, char** argv) {
  using namespace shampoo;
  REQUIRE(argc >= 2, "%d arguments: expected the number of calls", argc - 1);
  const int64_t calls = std::atoll(argv[1]);
  const bool expect_differences = argc > 2 && std::string(argv[2]) == "--expect-differences";
  if (expect_differences && std::thread::hardware_concurrency() < 2) {
    std::cout << "skipped: on one processor, calls hardly ever run at the same time\n";
    return SKIPPED;
  }
  const int64_t unplanned = blas::UnplannedScratchRequests();
  // With 128 threads, OpenBLAS's own allocator would run out of buffers and end the program.
  const std::vector<int> thread_counts = expect_differences ? std::vector<int>{2, 8} : std::vector<int>{2, 8, 128};
  int64_t all = 0;
  for (int round = 0; round < (expect_differences ? 40 : 1) && all == 0; ++round) {
    for (const Kind& kind : kKinds) all += DifferencesOfKind(kind, thread_counts, calls);
  }
  if (expect_differences) {
    REQUIRE(all > 0,
            "no difference, although all threads share one scratch allocator: this test cannot detect differences");
    return 0;
  }
  REQUIRE(all == 0, "%lld differences", static_cast<long long>(all));
  REQUIRE(blas::UnplannedScratchRequests() == unplanned, "%lld requests beyond the scratch memory",
          static_cast<long long>(blas::UnplannedScratchRequests() - unplanned));
  return 0;
}

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/machine.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <vector>

#include "tools/bench/at_once.h"
#include "tools/bench/fail.h"
#include "tools/bench/kernels.h"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kMinRemeasureInterval = std::chrono::seconds(5);  // MeasureAgain measures at most once in this time

// Returns the size in bytes of the cache of this level, or 0 if the system does not report it. The system reports a
// size in the form "32768K".
int64_t CacheBytes(int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
    int found = 0;
    std::string size;
    if (!(std::ifstream(folder + "/level") >> found) || found != level) continue;
    if (!(std::ifstream(folder + "/size") >> size)) continue;
    const int64_t unit = size.back() == 'M' ? int64_t{1} << 20 : size.back() == 'K' ? int64_t{1} << 10 : 1;
    return std::atoll(size.c_str()) * unit;
  }
  return 0;
}

struct Free {
  void operator()(float* memory) const { std::free(memory); }
};
using Floats = std::unique_ptr<float[], Free>;

// Number of runs of each measurement. A run takes only a few milliseconds, so that other load on the machine does not
// disturb all runs.
constexpr int kRuns = 96;

// Returns the bytes per second that Kernels::update moves on all threads. Each thread has two arrays, which are divided
// into slices. In each run, a thread updates the next slice `passes` times.
double MeasureRate(int threads, int64_t bytes_per_array, int64_t slices, int64_t passes) {
  const Kernels& kernels = KernelsOfThisCpu();
  const int64_t n = std::max<int64_t>(bytes_per_array / slices / 4 / 32 * 32, 32);  // elements per slice
  std::vector<Floats> arrays(static_cast<size_t>(2 * threads));
  // Each thread touches its own arrays first, so that they are in the memory of its NUMA node.
  ShortestParallelRun(threads, 1, [&](int thread) {
    for (const int i : {2 * thread, 2 * thread + 1}) {
      const auto bytes = static_cast<size_t>(slices * n * 4);
      Floats& array = arrays[static_cast<size_t>(i)];
      array.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
      if (array == nullptr) Fail("cannot allocate " + std::to_string(bytes) + " bytes to measure the bandwidth");
      std::fill_n(array.get(), slices * n, 1.0f);
    }
  });
  std::vector<int64_t> slice(static_cast<size_t>(threads));
  const double seconds = ShortestParallelRun(threads, kRuns, [&](int thread) {
    const int64_t first = slice[static_cast<size_t>(thread)]++ % slices * n;
    float* const a = arrays[static_cast<size_t>(2 * thread)].get() + first;
    const float* const b = arrays[static_cast<size_t>(2 * thread + 1)].get() + first;
    for (int64_t pass = 0; pass < passes; ++pass) kernels.update(a, b, n);
  });
  return static_cast<double>(threads * passes * n * 12) / seconds;
}

double MeasurePeak(int threads) {
  const Kernels& kernels = KernelsOfThisCpu();
  const int64_t rounds = int64_t{1} << 20;
  const double seconds = ShortestParallelRun(threads, kRuns, [&](int) {
    volatile float kept = kernels.multiply_add(rounds);
    static_cast<void>(kept);
  });
  return static_cast<double>(threads * rounds * kernels.flops_per_round) / seconds;
}

}  // namespace

int64_t LastLevelCacheBytes() {
  const int64_t third = CacheBytes(3);
  return third > 0 ? third : int64_t{32} << 20;
}

Machine MeasureMachine(int threads) {
  Machine machine;
  machine.threads = threads;
  machine.peak = MeasurePeak(threads);
  // `large` is half of the bytes of all arrays: three times the size of the last-level cache, so that most accesses
  // miss the cache, but at least 64 MiB. The upper limit, 256 MiB, is for machines with little memory.
  const int64_t large = std::clamp(3 * LastLevelCacheBytes(), int64_t{64} << 20, int64_t{256} << 20);
  machine.memory_rate = MeasureRate(threads, large / threads, 16, 1);
  const int64_t second = CacheBytes(2) > 0 ? CacheBytes(2) : int64_t{512} << 10;
  machine.cache_rate = MeasureRate(threads, second / 4, 1, 800);
  machine.when = Clock::now();
  return machine;
}

void MeasureAgain(Machine* machine) {
  if (Clock::now() - machine->when < kMinRemeasureInterval) return;
  const Machine again = MeasureMachine(machine->threads);
  machine->peak = std::max(machine->peak, again.peak);
  machine->memory_rate = std::max(machine->memory_rate, again.memory_rate);
  machine->cache_rate = std::max(machine->cache_rate, again.cache_rate);
  machine->when = again.when;
}

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string InstructionSetName() { return KernelsOfThisCpu().name; }

}  // namespace bench

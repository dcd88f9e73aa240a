// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/at_once.h"

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

namespace bench {
namespace {

// Pins the calling thread to one of the processors that this process may use.
void StayOn(int processor) {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) == 0) return;
  processor %= CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || processor-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);  // if the call fails, the thread is not pinned
    return;
  }
#else
  static_cast<void>(processor);
#endif
}

}  // namespace

double ShortestParallelRun(int threads, int runs, const std::function<void(int)>& work) {
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> start(static_cast<size_t>(threads));
  std::vector<Clock::time_point> end(static_cast<size_t>(threads));
  std::barrier<> together(threads);
  double shortest = 1e300;
  const auto loop = [&](int thread) {
    for (int run = 0; run < runs; ++run) {
      if (run == (runs + 1) / 2) StayOn(thread);
      together.arrive_and_wait();
      start[static_cast<size_t>(thread)] = Clock::now();
      work(thread);
      end[static_cast<size_t>(thread)] = Clock::now();
      together.arrive_and_wait();
      if (thread != 0) continue;
      const auto took = *std::max_element(end.begin(), end.end()) - *std::min_element(start.begin(), start.end());
      shortest = std::min(shortest, std::chrono::duration<double>(took).count());
    }
  };
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread) all.emplace_back(loop, thread);
  for (std::thread& one : all) one.join();
  return shortest;
}

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace bench {

// What so many threads at once can do on this machine, at the time of the measurement.
struct Machine {
  int threads = 1;
  double peak = 0;         // flops per second, multiply-adds in registers
  double memory_rate = 0;  // bytes per second from memory, two streams read and one written back
  double cache_rate = 0;   // the same from half of each core's second-level cache
  std::chrono::steady_clock::time_point when;
};

Machine MeasureMachine(int threads);
// Measures once more unless that was done a moment ago, and keeps the better of each: whatever else runs on the machine
// only takes away.
void MeasureAgain(Machine* machine);

int64_t LastCacheBytes();
std::string CpuName();
// Vectors in which the machine was measured: "avx512", "avx2", "baseline".
std::string VectorName();

}  // namespace bench

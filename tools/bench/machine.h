// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace bench {

// The limits of a number of threads on this machine, at the time of the measurement.
struct Machine {
  int threads = 1;
  double peak = 0;         // flops per second, multiply-adds in registers
  double memory_rate = 0;  // bytes per second from memory, two streams read and one written back
  double cache_rate = 0;   // the same within half of each core's second-level cache
  std::chrono::steady_clock::time_point when;
};

Machine MeasureMachine(int threads);
// Measures again, unless the last measurement was a moment ago, and keeps the better values, because other load on the
// machine only reduces them.
void MeasureAgain(Machine* machine);

int64_t LastCacheBytes();
std::string CpuName();
// Returns the vectors with which the machine was measured: "avx512", "avx2" or "baseline".
std::string VectorName();

}  // namespace bench

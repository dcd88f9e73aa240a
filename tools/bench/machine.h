// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace bench {

// The limits of this machine for a number of threads, at the time of the measurement.
struct Machine {
  int threads = 1;
  double peak = 0;         // flops per second, multiply-adds in registers
  double memory_rate = 0;  // bytes per second; two streams are read and one is written
  double cache_rate = 0;   // the same in half of each core's second-level cache
  std::chrono::steady_clock::time_point when;
};

Machine MeasureMachine(int threads);
// Measures once more, unless the last measurement is recent. Keeps the better values, because other load on the machine
// only reduces them.
void MeasureAgain(Machine* machine);

int64_t LastCacheBytes();
std::string CpuName();
// Returns the vectors of the measurement: "avx512", "avx2", "baseline".
std::string VectorName();

}  // namespace bench

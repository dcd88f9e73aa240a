// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace bench {

// Measured limits of this machine for a number of threads. The times of steps are compared with these limits.
struct Machine {
  int threads = 1;
  double peak = 0;         // flops per second of multiply-adds in registers
  double memory_rate = 0;  // bytes per second from memory: each thread reads two arrays and writes one of them
  double cache_rate = 0;   // bytes per second if the arrays of a thread fill half of a core's second-level cache
  std::chrono::steady_clock::time_point when;  // time of the last measurement
};

Machine MeasureMachine(int threads);
// Measures again, and keeps the higher of the old and the new rates, because other load on the machine only reduces
// rates. Does nothing within five seconds of the last measurement.
void MeasureAgain(Machine* machine);

// Returns the size of the third-level cache, or 32 MiB if the system does not report it.
int64_t LastLevelCacheBytes();
std::string CpuName();
// Returns the vector instructions that MeasureMachine uses: "avx512", "avx2" or "baseline".
std::string InstructionSetName();

}  // namespace bench

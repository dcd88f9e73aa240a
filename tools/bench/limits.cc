// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/limits.h"

#include <algorithm>

namespace bench {
namespace {

// Returns one thread's share of the bandwidth, in bytes per second. The bandwidth is Machine::cache_rate if states,
// parameters and gradients together fit into half of the last-level cache, otherwise Machine::memory_rate.
double MemoryRate(const Row& row, const Machine& machine) {
  const double touched = static_cast<double>(row.memory.state) + 8 * static_cast<double>(row.work.parameters);
  const bool cached = touched < static_cast<double>(LastLevelCacheBytes()) / 2;
  return (cached ? machine.cache_rate : machine.memory_rate) / machine.threads;
}

}  // namespace

std::array<PhaseLimit, kPhases> PhaseLimits(const Row& row, const Machine& machine) {
  const Work work[kPhases] = {row.work.check, row.work.factor_update, row.work.roots, row.work.preconditioning,
                              row.work.elementwise};
  std::array<PhaseLimit, kPhases> phases;
  for (size_t i = 0; i < kPhases; ++i) {
    // The flops of the elementwise phase include square roots and divisions, whose rate is not measured. Therefore the
    // limit of this phase is the time of its bytes.
    const double by_flops = i == kElementwise ? 0 : work[i].flops / (machine.peak / machine.threads);
    const double by_bytes = work[i].bytes / MemoryRate(row, machine);
    phases[i] = {kPhaseNames[i], work[i], row.phases[i], std::max(by_flops, by_bytes), by_flops >= by_bytes};
  }
  return phases;
}

double StepLimit(const Row& row, const Machine& machine) {
  double seconds = 0;
  const std::array<PhaseLimit, kPhases> phases = PhaseLimits(row, machine);
  for (size_t i = 1; i < kPhases; ++i) {  // skips phase 0, the check: other phases read the same data
    if (i != kRoots) seconds += phases[i].limit;
  }
  return seconds / machine.threads;
}

double FractionOfPeak(const Row& row, const Machine& machine) {
  return row.work.ProductFlops() / row.ordinary.seconds / machine.peak;
}

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/limits.h"

#include <algorithm>

namespace bench {
namespace {

// Returns the bandwidth of one thread. States that do not fit into the last-level cache are read from memory at every
// step.
double RateOfBytes(const Row& row, const Machine& machine) {
  const double touched = static_cast<double>(row.memory.state) + 8 * static_cast<double>(row.work.parameters);
  const bool cached = touched < static_cast<double>(LastCacheBytes()) / 2;
  return (cached ? machine.cache_rate : machine.memory_rate) / machine.threads;
}

}  // namespace

std::array<PartLimit, kParts> LimitParts(const Row& row, const Machine& machine) {
  const Work of_parts[kParts] = {row.work.check, row.work.factor_update, row.work.roots, row.work.preconditioning,
                                 row.work.elementwise};
  std::array<PartLimit, kParts> parts;
  for (size_t i = 0; i < kParts; ++i) {
    // Elementwise flops include roots and divisions, whose rate is not measured, so only bytes limit them.
    const double by_flops = i == kElementwise ? 0 : of_parts[i].flops / (machine.peak / machine.threads);
    const double by_bytes = of_parts[i].bytes / RateOfBytes(row, machine);
    parts[i] = {kPartNames[i], of_parts[i], row.parts[i], std::max(by_flops, by_bytes), by_flops >= by_bytes};
  }
  return parts;
}

double LimitOf(const Row& row, const Machine& machine) {
  double seconds = 0;
  const std::array<PartLimit, kParts> parts = LimitParts(row, machine);
  for (size_t i = 1; i < kParts; ++i) {  // not the check, which reads the same bytes again
    if (i != kRoots) seconds += parts[i].limit;
  }
  return seconds / machine.threads;
}

double PartOfPeak(const Row& row, const Machine& machine) {
  return row.work.ProductFlops() / row.ordinary.seconds / machine.peak;
}

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "tools/bench/machine.h"
#include "tools/bench/runner.h"

namespace bench {

// The time of a part of a step, and its limit: the time that its flops or its bytes need on the same threads, whichever
// is longer. For elementwise work, only bytes count. All seconds are summed over threads.
struct PartLimit {
  const char* name = "";
  Work work;
  double seconds = 0;  // measured; 0: unknown
  double limit = 0;
  bool bound_by_flops = true;
};
std::array<PartLimit, kParts> LimitParts(const Row& row, const Machine& machine);

// Returns the seconds of an ordinary step at these limits on all threads: factor updates, preconditioning, elementwise
// work.
double LimitOf(const Row& row, const Machine& machine);

// Returns the rate of the products in an ordinary step as a fraction of the rate of multiply-adds in registers.
double FractionOfPeak(const Row& row, const Machine& machine);

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "tools/bench/machine.h"
#include "tools/bench/runner.h"

namespace bench {

// What a part of a step took beside the least that its flops and bytes take on the same threads: of the two the longer
// one; of elementwise work the bytes alone. All seconds are summed over threads.
struct PartLimit {
  const char* name = "";
  Work work;
  double seconds = 0;  // taken; 0: not known
  double limit = 0;
  bool bound_by_flops = true;
};
std::array<PartLimit, kParts> LimitParts(const Row& row, const Machine& machine);

// Seconds of an ordinary step at these limits, all threads together: factor updates, preconditioning, elementwise work.
double LimitOf(const Row& row, const Machine& machine);

// Products of an ordinary step in its time, as a part of what multiply-adds in registers reach.
double PartOfPeak(const Row& row, const Machine& machine);

}  // namespace bench

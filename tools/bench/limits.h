// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "tools/bench/machine.h"
#include "tools/bench/runner.h"

namespace bench {

// The measured time of a phase, and the limit that its flops and bytes set on the same threads: the longer of the two;
// for elementwise work, that of the bytes. All seconds are summed over threads.
struct PartLimit {
  const char* name = "";
  Work work;
  double seconds = 0;  // taken; 0: not known
  double limit = 0;
  bool bound_by_flops = true;
};
std::array<PartLimit, kParts> LimitParts(const Row& row, const Machine& machine);

// Returns the seconds of an ordinary step at these limits, with all threads: factor updates, preconditioning and
// elementwise work.
double LimitOf(const Row& row, const Machine& machine);

// Returns the rate of the products of an ordinary step, relative to that of multiply-adds in registers.
double PartOfPeak(const Row& row, const Machine& machine);

}  // namespace bench

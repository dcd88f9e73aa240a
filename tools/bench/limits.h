// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "tools/bench/machine.h"
#include "tools/bench/runner.h"

namespace bench {

// The measured time of a phase of a step (kPhaseNames), and the least possible time of its work. The least time is the
// longer of two times: the time to compute the flops and the time to read and write the bytes, at the measured rates of
// the machine. For elementwise work, only the bytes count. All times are in seconds, summed over threads.
struct PhaseLimit {
  const char* name = "";
  Work work;
  double seconds = 0;          // measured time, or 0 if it is not known
  double limit = 0;            // least possible time
  bool bound_by_flops = true;  // false if the time of the bytes is the longer one
};
std::array<PhaseLimit, kPhases> PhaseLimits(const Row& row, const Machine& machine);

// Returns the least possible time, in seconds, of a step without roots. The result is the sum of the limits of factor
// update, preconditioning and elementwise work, divided by the number of threads.
double StepLimit(const Row& row, const Machine& machine);

// Returns the flop rate of the matrix products in a step without roots, divided by the peak rate of the machine.
double FractionOfPeak(const Row& row, const Machine& machine);

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/config/settings.h"
#include "core/rules/schedule.h"
#include "core/rules/step_scalars.h"

namespace shampoo {

// The scalars and settings with which the CPU makes one step of each block of a group.
struct StepProgram : StepScalars {
  const Settings* settings = nullptr;  // for everything that StepScalars does not contain
  uint64_t rounding_seed = 0;          // the seed of stochastic rounding
};

// Returns the program of step t of a group. current: `settings` with the values of bound scalars in this step.
inline StepProgram MakeProgram(const Settings& settings, const GroupSettings& current, int64_t t,
                               uint64_t rounding_seed) {
  return {MakeStepScalars(current, t), &settings, rounding_seed};
}

}  // namespace shampoo

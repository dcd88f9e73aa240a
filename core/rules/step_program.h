// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/config/settings.h"
#include "core/rules/schedule.h"
#include "core/rules/step_scalars.h"

namespace shampoo {

// One step of one group as the CPU carries it out for each block.
struct StepProgram : StepScalars {
  const Settings* settings = nullptr;  // the group's: by which rules roots are computed
};

// in_force: the settings with the bound numbers of this step.
inline StepProgram MakeProgram(const Settings& settings, const GroupSettings& in_force, int64_t t) {
  return {MakeStepScalars(in_force, t), &settings};
}

}  // namespace shampoo

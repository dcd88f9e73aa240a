// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace shampoo {

// The phases of a step. The key track_times measures the time of each phase.
enum class StepPhase { kCheck, kFactorUpdate, kRoots, kPreconditioning, kElementwise };
inline constexpr size_t kStepPhaseCount = 5;

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace shampoo {

// The phases of a step whose time can be measured.
enum class StepPhase { kCheck, kFactorUpdate, kRoots, kPreconditioning, kElementwise };
inline constexpr size_t kStepPhaseCount = 5;

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/config/settings.h"
#include "core/plan/block.h"

namespace shampoo {

// Sets the phase of every block of a group with root_spread: the most expensive roots first, each to the phase with the
// least work so far, so that all steps of precondition_frequency have about the same. It depends on the blocks alone,
// not on who owns them.
void AssignPhases(const std::vector<Settings>& groups, std::vector<Block>* blocks);

}  // namespace shampoo

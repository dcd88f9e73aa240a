// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace shampoo {

// A plan as lines of text, each telling one thing that must be the same on several ranks: hyper-parameters, parameters.
// with_shards: also which part of a parameter the rank holds, as ranks with the same parameters must agree on.
std::vector<std::string> PlanLines(const PlanData& plan, bool with_shards);

}  // namespace shampoo

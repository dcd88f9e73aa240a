// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.h"

// Text about a finished plan: lines that ranks compare with each other, and a warning about factor matrices.
namespace shampoo {

// Returns lines of text that must be the same on several ranks: one with the numbers of parameters and groups, one for
// each hyper-parameter of each group, and one for each parameter.
// with_shards: the lines also contain this rank's shard of each parameter, for ranks that must hold the same shards.
std::vector<std::string> PlanLines(const PlanData& plan, bool with_shards);

// Returns a warning if factor matrices cannot have full rank when their first inverse roots are computed, because too
// few gradients have been added by then. In directions without gradients, such a matrix consists of epsilon alone, and
// its root is large. The warning counts these matrices and names the one whose rank is farthest below full rank. If
// there are no such matrices, returns "".
std::string RankDeficientFactorsText(const PlanData& plan);

}  // namespace shampoo

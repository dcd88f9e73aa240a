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

// Returns a warning if some factor matrices cannot have full rank when their first inverse roots are computed, because
// too few gradients have been added to them by then. In directions without gradients, such a matrix consists of epsilon
// alone, and its root is large. The warning contains the number of such matrices and the name of the one for which size
// minus rank is largest. If there is no such matrix, returns "". Counts no matrix of a method in eigenbases, and none
// with root_rank_handling=pseudo_inverse or root_relative_epsilon above 0.
std::string RankDeficientFactorsText(const PlanData& plan);

}  // namespace shampoo

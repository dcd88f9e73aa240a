// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "capi/tools/ckpt/state_difference.h"
#include "core/checkpoint/index.h"

namespace shampoo::ckpt {

// The differences between the states of one parameter in two checkpoints.
struct ParamDiff {
  std::map<std::string, StateDifference> states;  // by name of the state; only states that were compared
  std::vector<std::string> notes;  // messages about states that were not compared, and about different dtypes
};

// Compares the states of a parameter that has the same shape in the checkpoints A and B. a, b: all blocks of the
// parameter in A and in B, sorted by SortByPlace() (source.h).
Status DiffParam(const StoredParam& param, const std::vector<const StoredBlock*>& a,
                 const std::vector<const StoredBlock*>& b, StateComparer* comparer, ParamDiff* diff);

}  // namespace shampoo::ckpt

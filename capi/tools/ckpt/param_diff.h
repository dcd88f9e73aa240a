// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "capi/tools/ckpt/state_difference.h"
#include "core/checkpoint/index.h"

namespace shampoo::ckpt {

// What differs in the states of one parameter.
struct ParamDiff {
  std::map<std::string, StateDifference> states;  // all that were compared
  std::vector<std::string> notes;                 // what could not be compared, or is of another kind
};

// a, b: all blocks of a parameter of one shape in checkpoints A and B, by place.
Status DiffParam(const StoredParam& param, const std::vector<const StoredBlock*>& a,
                 const std::vector<const StoredBlock*>& b, StateComparer* comparer, ParamDiff* diff);

}  // namespace shampoo::ckpt

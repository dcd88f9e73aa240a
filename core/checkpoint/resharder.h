// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/base/status.h"
#include "core/checkpoint/matching.h"
#include "core/checkpoint/states_reader.h"

namespace shampoo {

// Loads the elementwise states of a parameter that was saved with other blocks: a block gets each element from the
// saved block that has this element. Load() handles a limited range of the flattened parameter (a window) at a time, so
// that the memory is bounded.
class Resharder {
 public:
  explicit Resharder(StatesReader* reader) : reader_(reader) {}
  Status Load(const CheckpointIndex& index, const Matching::ReshardedParam& resharded);

 private:
  // A state of a block, and the place of the block in the parameter.
  struct Target {
    BlockPlace place;
    const StateEntry* state;
  };
  // Loads elements [first, first + count) of the flattened parameter. All targets have the same kind of state.
  Status LoadWindow(const Matching::ReshardedParam& resharded, const std::vector<Target>& targets, int64_t first,
                    int64_t count);

  StatesReader* reader_;
  std::vector<char> window_;
  std::vector<char> copy_;  // host copy of a state that is in device memory
};

}  // namespace shampoo

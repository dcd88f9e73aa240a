// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/base/status.h"
#include "core/checkpoint/matching.h"
#include "core/checkpoint/states_reader.h"

namespace shampoo {

// Assembles the elementwise states of a block from the saved blocks that have its elements. Works on windows of the
// flattened parameter, so that its memory is bounded.
class Resharder {
 public:
  explicit Resharder(StatesReader* reader) : reader_(reader) {}
  Status Load(const CheckpointIndex& index, const Matching::ReshardedParam& resharded);

 private:
  struct Target {
    BlockPlace place;
    const StateEntry* state;
  };
  Status LoadWindow(const Matching::ReshardedParam& resharded, const std::vector<Target>& targets, int64_t first,
                    int64_t count);

  StatesReader* reader_;
  std::vector<char> window_;
  std::vector<char> copy_;  // buffer for entries that are not in host memory
};

}  // namespace shampoo

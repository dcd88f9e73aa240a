// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/base/status.h"
#include "core/checkpoint/matching.h"
#include "core/checkpoint/states_reader.h"

namespace shampoo {

// Puts the elementwise states of blocks together from blocks that were cut in another way, window by window of the
// flattened parameter.
class Recutter {
 public:
  explicit Recutter(StatesReader* reader) : reader_(reader) {}
  Status Load(const CheckpointIndex& index, const Matching::Recut& recut);

 private:
  struct Target {
    BlockPlace place;
    const StateEntry* state;
  };
  Status LoadWindow(const Matching::Recut& recut, const std::vector<Target>& targets, int64_t first, int64_t count);

  StatesReader* reader_;
  std::vector<char> window_;
  std::vector<char> copy_;  // of an entry that is not in host memory
};

}  // namespace shampoo

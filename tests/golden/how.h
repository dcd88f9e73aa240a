// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace shampoo::golden {

class Device;

// How cases are replayed; the answer must not depend on it, but for shards, which are tensors of their own.
struct How {
  int32_t threads = 0;  // of each rank; 0 leaves the number to the library
  int ranks = 1;        // with the same parameters, as threads of this process
  int shards = 1;       // of one copy of the parameters; of each there are so many ranks
  bool rectangles = false;
  std::vector<std::pair<std::string, std::string>> keys;  // beside those of the case
  const shampoo_comm_ops* process = nullptr;  // this process is one of its ranks, and has no other: with shards
                                              // above 1 it holds one of as many shards as there are ranks
  Device* device = nullptr;                   // nullptr: the host
  // Of trajectories: folders of checkpoints, as StepCheckpoints keeps them.
  std::filesystem::path save_every = {};   // where each step but the last leaves one; empty: nowhere
  std::filesystem::path resume_from = {};  // whose steps are gone on from, each in turn; empty: from the start
  bool resume_across = false;              // another device has left them: the answers of all runs are told
};

}  // namespace shampoo::golden

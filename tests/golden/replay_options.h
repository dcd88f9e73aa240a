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

// Options of a replay, which computes the results of a recorded case again through the C API. The results must not
// depend on the number of threads or ranks. They may depend on the number and form of the shards only with
// shard_mode=local.
struct ReplayOptions {
  int32_t threads = 0;         // threads of each rank; 0: the library chooses
  int ranks = 1;               // number of replica ranks, which are threads of this process
  int shards = 1;              // number of shards; each shard has `ranks` replica ranks
  bool rectangles = false;     // true: shards are slices along dim 0; false: equal parts of the flattened parameter
  bool has_all_to_all = true;  // whether communicators of shard ranks have all_to_all
  std::vector<std::pair<std::string, std::string>> keys;  // set after the keys of the case
  // not nullptr: each rank of this communicator is a process. The processes are shard ranks if `shards` is above 1,
  // otherwise replica ranks.
  const shampoo_comm_ops* process = nullptr;
  Device* device = nullptr;  // nullptr: the host
  // For trajectories: the seed of the perturbations of gradients and factor matrices; 0: nothing is perturbed.
  uint64_t perturb = 0;
  // For trajectories: folders of checkpoints (step_checkpoints.h).
  std::filesystem::path save_every = {};   // saves a checkpoint here after each step except the last; empty: saves none
  std::filesystem::path resume_from = {};  // resumes from each checkpoint in this folder; empty: starts at step 1
  // true: the checkpoints in resume_from are from another device. The resumed runs then differ from the saved run and
  // from each other, so the result contains the tensors of every run. false: all runs must be bit-identical, and the
  // result has each tensor once.
  bool resume_across = false;
};

}  // namespace shampoo::golden

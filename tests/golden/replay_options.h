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

// Options of a replay. The result must not depend on the numbers of threads, ranks and shards, except with shards in
// shard_mode local.
struct ReplayOptions {
  int32_t threads = 0;         // of each rank; 0: chosen by the library
  int ranks = 1;               // ranks with the same parameters, as threads of this process
  int shards = 1;              // shards of the parameters; each shard has `ranks` ranks
  bool rectangles = false;     // shards are slices along dim 0; otherwise equal parts of the flattened parameter
  bool has_all_to_all = true;  // whether communicators of shards have all_to_all
  std::vector<std::pair<std::string, std::string>> keys;  // in addition to those of the case
  const shampoo_comm_ops* process = nullptr;              // this process is one rank of this communicator; if shards is
                                                          // above 1, each rank has one shard
  Device* device = nullptr;                               // nullptr: the host
  // For trajectories: the seed of the perturbations of gradients and factor matrices; 0: nothing is perturbed.
  uint64_t perturb = 0;
  // For trajectories: folders of StepCheckpoints.
  std::filesystem::path save_every = {};   // each step except the last saves a checkpoint here; empty: none
  std::filesystem::path resume_from = {};  // resumes from each checkpoint here; empty: starts at the first step
  bool resume_across = false;  // the checkpoints are from another device, so the results of all runs are returned
};

}  // namespace shampoo::golden

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/bench/placement_models.h"

namespace bench {

// Assumed rates of the processor and the network link of a rank, from which times are predicted. Flops and bytes are
// per second, and the latency is in seconds. The output of --help describes each rate.
struct Rates {
  double train_flops = 400e12;
  double shampoo_flops = 40e12;
  double root_flops = 10e12;
  double link_bytes = 50e9;
  double latency = 10e-6;
};

// The command line of shampoo_placement. The output of --help describes each option.
struct PlacementOptions {
  std::vector<Model> models;
  std::vector<int> worlds;
  std::vector<std::string> balances = {"bytes", "cost"};
  bool gather = false;  // true: shard_mode=gather; false: shard_mode=local
  int shards = 1;
  // Largest number of replicas that divide the blocks among themselves. Several such groups of replicas repeat the
  // work. 0: all replicas form one group.
  int group = 0;
  int block = 1024;
  int frequency = 50;
  int steps = 10000;  // number of steps over which the cost of roots is averaged
  std::string preset = "shampoo_2024";
  std::string grafting = "adam";
  std::vector<std::pair<std::string, std::string>> keys;  // --set
  Rates rates;
  std::string json;
  std::string chart;
};

// Parses the command line. Exits after --help and after an error.
PlacementOptions ReadPlacementOptions(int argc, char** argv);

}  // namespace bench

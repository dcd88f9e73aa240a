// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tools/bench/placement_shards.h"

namespace bench {

// The rows of a model: one for each combination of a number of ranks and a value of the key balance.
struct Shards {
  Model model;
  std::vector<ShardsRow> rows;
};

// These functions report on shard_mode=gather, as the functions of placement_report.h report on shard_mode=local. The
// chart shows only the first model.
void PrintShards(const Shards& shards);
void WriteShardsJson(const std::vector<Shards>& all, const PlacementOptions& options);
void WriteShardsChart(const std::vector<Shards>& all, const PlacementOptions& options);

}  // namespace bench

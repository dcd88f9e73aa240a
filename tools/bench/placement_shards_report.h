// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tools/bench/placement_shards.h"

namespace bench {

// The rows of a model: one for each combination of world and balance.
struct Shards {
  Model model;
  std::vector<ShardsRow> rows;
};

// These functions correspond to those of placement_report.h, for placements over shards.
void PrintShards(const Shards& shards);
void WriteShardsJson(const std::vector<Shards>& all, const PlacementOptions& options);
void WriteShardsChart(const std::vector<Shards>& all, const PlacementOptions& options);

}  // namespace bench

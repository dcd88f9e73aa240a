// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tools/bench/placement_shards.h"

namespace bench {

// All rows of a model, for each world and each balance.
struct Shards {
  Model model;
  std::vector<ShardsRow> rows;
};

// Do the same as the functions of placement_report.h, for shards.
void PrintShards(const Shards& shards);
void WriteShardsJson(const std::vector<Shards>& all, const PlacementOptions& options);
void WriteShardsChart(const std::vector<Shards>& all, const PlacementOptions& options);

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tools/bench/placement_shards.h"

namespace bench {

// All rows of a model, ordered by world, then by balance.
struct Shards {
  Model model;
  std::vector<ShardsRow> rows;
};

// Like the functions in placement_report.h.
void PrintShards(const Shards& shards);
void WriteShardsJson(const std::vector<Shards>& all, const PlacementOptions& options);
void WriteShardsChart(const std::vector<Shards>& all, const PlacementOptions& options);

}  // namespace bench

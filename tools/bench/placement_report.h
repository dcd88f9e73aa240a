// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tools/bench/placement_row.h"

namespace bench {

// All rows of a model: world by world, balance by balance.
struct Placement {
  Model model;
  std::vector<PlacementRow> rows;
};

// On stdout, in Markdown.
void PrintPlacement(const Placement& placement, const PlacementOptions& options);

// Bytes and seconds in plain units. An empty path: nothing is written.
void WritePlacementJson(const std::vector<Placement>& placements, const PlacementOptions& options);
void WritePlacementChart(const std::vector<Placement>& placements, const PlacementOptions& options);

}  // namespace bench

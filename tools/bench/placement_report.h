// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tools/bench/placement_row.h"

namespace bench {

// All rows of a model, ordered by world, then by balance.
struct Placement {
  Model model;
  std::vector<PlacementRow> rows;
};

// Prints a Markdown table.
void PrintPlacement(const Placement& placement, const PlacementOptions& options);

// Bytes and seconds have no prefix. If the path is empty, nothing is written.
void WritePlacementJson(const std::vector<Placement>& placements, const PlacementOptions& options);
void WritePlacementChart(const std::vector<Placement>& placements, const PlacementOptions& options);

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tools/bench/placement_row.h"

namespace bench {

// All rows of a model, for each world and each balance.
struct Placement {
  Model model;
  std::vector<PlacementRow> rows;
};

// Prints the rows to stdout as Markdown.
void PrintPlacement(const Placement& placement, const PlacementOptions& options);

// Writes bytes and seconds in plain units. If the path is empty, nothing is written.
void WritePlacementJson(const std::vector<Placement>& placements, const PlacementOptions& options);
void WritePlacementChart(const std::vector<Placement>& placements, const PlacementOptions& options);

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tools/bench/placement_row.h"

namespace bench {

// The rows of a model: one for each combination of a number of ranks and a value of the key balance.
struct Placement {
  Model model;
  std::vector<PlacementRow> rows;
};

// Prints the rows to stdout as Markdown.
void PrintPlacement(const Placement& placement, const PlacementOptions& options);

// Writes all numbers, in bytes and seconds, to the file whose path is options.json. If this path is empty, writes
// nothing.
void WritePlacementJson(const std::vector<Placement>& placements, const PlacementOptions& options);
// Writes a plot of the overhead and the state of the rows (see PlacementRow) to the file whose path is options.chart.
// If this path is empty, writes nothing.
void WritePlacementChart(const std::vector<Placement>& placements, const PlacementOptions& options);

}  // namespace bench

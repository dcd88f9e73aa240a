// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// How the blocks of a model spread over many ranks, by its plan alone, and what a step would cost by a model of the
// processor and the link. --help tells the options, docs/scaling.md the formulas.
#include <cstdio>

#include "tests/bench/placement_report.h"

namespace bench {
namespace {

void Run(const PlacementOptions& options) {
  std::vector<Placement> placements;
  for (const Model& model : options.models) {
    Placement placement{model, {}};
    for (const int world : options.worlds) {
      for (const std::string& balance : options.balances) {
        placement.rows.push_back(PlaceModel(model, world, balance, options));
      }
    }
    PrintPlacement(placement, options);
    placements.push_back(std::move(placement));
  }
  WritePlacementJson(placements, options);
  WritePlacementChart(placements, options);
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::Run(bench::ReadPlacementOptions(argc, argv));
  return 0;
}

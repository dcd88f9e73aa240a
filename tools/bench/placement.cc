// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Shows how a plan divides the blocks of a model among many ranks, and predicts the time of a step from assumed rates
// of the processor and the network link. --help lists the options; docs/scaling.md has the formulas.
#include <cstdio>

#include "tools/bench/placement_report.h"
#include "tools/bench/placement_shards_report.h"

namespace bench {
namespace {

// Returns the results of `place` for each number of ranks and each value of the key balance.
template <typename Place>
auto PlaceAll(const Model& model, const PlacementOptions& options, const Place& place) {
  std::vector<decltype(place(model, 1, options.balances[0], options))> rows;
  for (const int world : options.worlds) {
    for (const std::string& balance : options.balances) rows.push_back(place(model, world, balance, options));
  }
  return rows;
}

void Run(const PlacementOptions& options) {
  std::vector<Placement> placements;
  for (const Model& model : options.models) {
    placements.push_back({model, PlaceAll(model, options, PlaceModel)});
    PrintPlacement(placements.back(), options);
  }
  WritePlacementJson(placements, options);
  WritePlacementChart(placements, options);
}

void RunShards(const PlacementOptions& options) {
  std::vector<Shards> all;
  for (const Model& model : options.models) {
    all.push_back({model, PlaceAll(model, options, PlaceShards)});
    PrintShards(all.back());
  }
  WriteShardsJson(all, options);
  WriteShardsChart(all, options);
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  const bench::PlacementOptions options = bench::ReadPlacementOptions(argc, argv);
  options.gather ? bench::RunShards(options) : bench::Run(options);
  return 0;
}

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Stochastic rounding on several ranks.
#include <doctest/doctest.h>

#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

TEST_CASE("stochastic rounding of states gives the bits of one rank, on any replicas and shards") {
  RankSpec spec;
  spec.keys = {{"method", "adam"},
               {"lr", "0.1"},
               {"state_rounding", "stochastic"},
               {"filtered_grad_dtype", "bf16"},
               {"second_moment_dtype", "bf16"}};
  spec.params = {{"matrix", {9, 7}}, {"vector", {12}}, {"tensor", {3, 4, 2}}};
  const auto run = [](Grid* grid) {
    RequireCreate(grid);
    grid->FillParams(1);
    for (uint64_t t = 1; t <= 3; ++t) {
      grid->FillGradients(100 + t);
      RequireStep(grid);
    }
  };
  Grid one(spec, 1, 1);
  run(&one);
  spec.keys.emplace_back("rounding_seed", "1");
  Grid other(spec, 1, 1);
  run(&other);
  CHECK(!SameBits(one[0].w, other[0].w));
  for (const Kind kind : {Kind{2, 1}, Kind{1, 3}, Kind{2, 2}, Kind{1, 3, "gather"}, Kind{2, 2, "gather"}}) {
    for (const Division division : {Division::kFlat, Division::kRows}) {
      CAPTURE(kind);
      CAPTURE(division == Division::kFlat);
      spec.keys.back() = {"shard_mode", kind.shard_mode};
      Grid grid(spec, kind.replicas, Divide(spec.params, division, kind.shards));
      run(&grid);
      for (int rank = 0; rank < grid.world(); ++rank) {
        CHECK(SameBits(grid[rank].w, PartOf(grid.spec(rank).params, one[0].w)));
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of checkpoints of parameters that are whole on one shard rank or on all shard ranks.
#include <doctest/doctest.h>

#include <string>

#include "tests/capture.h"
#include "tests/checkpoint/faults/files.h"
#include "tests/checkpoint/reshard/trainee.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

TEST_CASE("if only one shard rank has elements of a group, the step counter of that rank is saved") {
  RankSpec spec = SmallModel();
  spec.groups = {spec.keys};
  spec.params = {{"weight", {9, 7}}, {"scalar", {}, 1}};
  for (int odd = 0; odd < 3; ++odd) {
    for (const int replicas : {1, 2}) {
      CAPTURE_ALL(odd, replicas);
      const Scratch scratch;
      Shards shards = Divide(spec.params, Division::kFlat, 3);
      // Only rank `odd` has the element of "scalar", which is the only parameter of group 1.
      for (int rank = 0; rank < 3; ++rank) shards[static_cast<size_t>(rank)][1].CutFlat(rank > odd, rank == odd);
      Grid grid(spec, replicas, shards);
      RequireStart(&grid);
      Grid resumed(spec, replicas, shards);
      RequireCreate(&resumed);
      RunSteps(&grid, 1, 3);
      RequireSave(&grid, scratch / "checkpoints");
      RequireLoad(&resumed, scratch / "checkpoints");
      for (int rank = 0; rank < grid.world(); ++rank) resumed[rank].w = grid[rank].w;
      RunSteps(&grid, 4, 6);
      RunSteps(&resumed, 4, 6);
      CHECK(SameBits(ParamsOf(&resumed), ParamsOf(&grid)));
      RankSpec whole = spec;
      whole.keys.emplace_back("on_block_mismatch", "reset");
      Rank loader(whole);
      RequireLoad(&loader, scratch / "checkpoints");
      CHECK(StepsOf(loader, 0) == 3);
      CHECK(StepsOf(loader, 1) == 3);
    }
  }
}

TEST_CASE(
    "if a parameter is whole on one shard rank or on all shard ranks, the checkpoint can be loaded without shards") {
  const RankSpec spec = SmallModel();
  for (const char* const mode : {"local", "gather"}) {
    for (const int replicas : {1, 2}) {
      for (const char* const held : {"whole", "flat", "rectangle", "by one"}) {
        CAPTURE_ALL(mode, replicas, held);
        // If a parameter is whole on each rank but described as a shard, shard_mode=gather needs calls of
        // shampoo_plan_add_shard. This test makes these calls only for "by one".
        if (mode == std::string("gather") && (held == std::string("flat") || held == std::string("rectangle")))
          continue;
        Shards shards(3, spec.params);
        for (size_t rank = 0; rank < 3; ++rank) {
          for (ParamSpec& param : shards[rank]) {
            if (held == std::string("flat")) param.CutFlat(0, param.Elements());
            if (held == std::string("rectangle")) param.CutAlong(0, 0, param.shape[0]);
            if (held == std::string("by one")) param.CutFlat(0, rank == 2 ? param.Elements() : 0);
          }
        }
        RankSpec of_ranks = spec;
        of_ranks.keys.emplace_back("shard_mode", mode);
        if (mode == std::string("gather") && held == std::string("by one")) of_ranks.all_shards = shards;
        Grid grid(of_ranks, replicas, shards);
        RequireCreate(&grid);
        grid.FillGradients(5);
        RequireStep(&grid);
        const Scratch scratch;
        RequireSave(&grid, scratch / "checkpoints");
        Rank one(spec);
        Fill(5, &one.g);
        one.Step();
        Rank loader(spec);
        RequireLoad(&loader, scratch / "checkpoints");
        CHECK(StatesOf(loader) == StatesOf(one));
        RequireLoad(&grid, scratch / "checkpoints");
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test

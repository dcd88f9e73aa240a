// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests that ranks with shard_mode=gather compute parameters that are bit-identical to those of one rank, which holds
// the whole parameters.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/capi/behaviour/listener.h"
#include "tests/capture.h"
#include "tests/distributed/models.h"
#include "tests/distributed/random_shards.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

const Keys kGather = "shard_mode=gather";

RankSpec GatheredSpec(const Keys& more = {}) { return AllOrdersSpec(kGather + more); }

// Returns the specification of one rank with the whole parameters.
RankSpec Whole(RankSpec spec) {
  spec.all_shards.clear();
  return spec;
}

void StartBoth(Grid* grid, Rank* one) {
  RequireStart(grid);
  RequireOk(*one);
  Fill(1, &one->w);
}

void RunBoth(Grid* grid, Rank* one, uint64_t first, uint64_t last) {
  RunStepsWithMissingGradients(grid, first, last);
  RunStepsWithMissingGradients(one, first, last);
}

// Makes a step on the ranks of the grid and on the single rank, with the same gradients.
void StepBoth(Grid* grid, Rank* one, uint64_t seed) {
  grid->FillGradients(seed);
  Fill(seed, &one->g);
  RequireStep(grid);
  RequireStep(one);
}

// Makes five steps with several ranks and with one rank, and checks that the resulting parameters are bit-identical. In
// step 3, parameter 1 has no gradient.
void CheckSteps(const RankSpec& spec, int replicas, const Shards& shards, bool all_to_all = true) {
  Rank one(Whole(spec));
  Grid grid(spec, replicas, shards);
  grid.SetAllToAll(all_to_all);
  StartBoth(&grid, &one);
  RunBoth(&grid, &one, 1, 5);
  CHECK(grid.AllHold(one.w));
  for (int rank = 0; rank < grid.world(); ++rank) {
    for (int group = 0; group <= static_cast<int>(spec.groups.size()); ++group) CHECK(StepsOf(grid[rank], group) == 5);
  }
}

TEST_CASE("shards and replicas of shards are bit-identical to one rank for every kind of communication") {
  for (const Division division : {Division::kFlat, Division::kRows}) {
    for (const Kind kind : {Kind{1, 2}, Kind{1, 3}, Kind{1, 8}, Kind{2, 2}, Kind{2, 3}, Kind{4, 2}}) {
      for (const Keys& keys : Combinations("balance=bytes|cost communicate=updates|params comm_bucket_bytes=0|600")) {
        for (const bool all_to_all : {true, false}) {
          CAPTURE_ALL(static_cast<int>(division), kind, keys, all_to_all);
          const RankSpec spec = GatheredSpec(keys);
          CheckSteps(spec, kind.replicas, Divide(spec.params, division, kind.shards), all_to_all);
        }
      }
    }
  }
}

TEST_CASE("gathered shards are bit-identical to one rank if decay is coupled and some parameters are not sharded") {
  for (const int shards : {2, 4}) {
    RankSpec spec = GatheredSpec("weight_decay_type=coupled gradient_scale=0.5 threads=3");
    spec.threads = 3;
    Shards layout = Divide(spec.params, Division::kFlat, shards);
    // Biases and the parameters of normalization layers are often not sharded.
    for (auto& shard : layout) {
      for (const size_t p : {1, 3, 4}) shard[p] = spec.params[p];
    }
    CheckSteps(spec, 1, layout);
  }
}

TEST_CASE("gathered shards of fused parameters are bit-identical to one rank if the parts are rows or columns") {
  for (const char* const method : {"shampoo", "soap"}) {
    for (const Division division : {Division::kFlat, Division::kRows}) {
      CAPTURE_ALL(method, static_cast<int>(division));
      RankSpec spec = GatheredSpec();
      spec.keys = Keys{{"method", method}, {"precondition_frequency", "2"}, {"use_merge_dims", "false"}} + kGather;
      spec.groups.clear();
      ParamSpec rows{"rows", {9, 4}}, columns{"columns", {4, 9}};
      rows.row_splits = columns.row_splits = {4, 2, 3};
      columns.fan = SHAMPOO_IN_OUT;
      spec.params = {rows, columns};
      CheckSteps(spec, 1, Divide(spec.params, division, 3));
    }
  }
}

void CheckRandomShapes(uint64_t count) {
  uint64_t empty = 0;
  uint64_t rectangles = 0;
  for (uint64_t seed = 0; seed < count; ++seed) {
    CAPTURE(seed);
    RandomCase one(seed);
    one.spec.keys = one.spec.keys + kGather +
                    Keys{{"weight_decay", one.OneOf({"0.1", "0"})},
                         {"communicate", one.OneOf({"updates", "params"})},
                         {"comm_bucket_bytes", one.OneOf({"0", "200"})}};
    const Shards shards = one.CutAll(one.Draw(2, 6), [&] { return one.OneIn(2); });
    for (const auto& shard : shards) {
      empty += shard[0].Elements() == 0 ? 1 : 0;
      rectangles += shard[0].shard_form == 2 ? 1 : 0;
    }
    one.spec.all_shards = shards;
    Rank whole(Whole(one.spec));
    Grid grid(one.spec, one.Draw(0, 9) == 0 ? 2 : 1, shards);
    grid.SetAllToAll(one.Draw(0, 3) != 0);
    StartBoth(&grid, &whole);
    const auto steps = static_cast<uint64_t>(one.Draw(1, 2));
    for (uint64_t t = 1; t <= steps; ++t) StepBoth(&grid, &whole, 100 + t);
    CHECK(grid.AllHold(whole.w));
  }
  CHECK(empty > count / 20);
  CHECK(rectangles > count / 2);
}

TEST_CASE("parameters of random shapes in random shards are bit-identical to one rank") { CheckRandomShapes(500); }

TEST_SUITE("long") {
  TEST_CASE("2000 models of random shapes in random shards are bit-identical to one rank") { CheckRandomShapes(2000); }
}

TEST_CASE("shards that are rectangles, with two dims divided, are bit-identical to one rank") {
  RankSpec spec = GatheredSpec();
  spec.params = {{"matrix", {9, 7}}, {"tensor", {4, 6, 5}}};
  spec.groups.clear();
  Shards shards(4, spec.params);
  for (int64_t r = 0; r < 4; ++r) {
    for (ParamSpec& param : shards[static_cast<size_t>(r)]) {
      for (size_t k = 0; k < 2; ++k) {
        const int64_t half = (param.shape[k] + 1) / 2;
        const bool second = (k == 0 ? r / 2 : r % 2) != 0;
        param.CutAlong(k, second ? half : 0, second ? param.shape[k] - half : half);
      }
    }
  }
  spec.all_shards = shards;
  Rank one(Whole(spec));
  Grid grid(spec, 2, shards);
  StartBoth(&grid, &one);
  for (uint64_t t = 1; t <= 4; ++t) StepBoth(&grid, &one, t);
  CHECK(grid.AllHold(one.w));
}

TEST_CASE(
    "steps with missing gradients are bit-identical to one rank, but a step fails if only one rank lacks a gradient") {
  Rank one(Whole(GatheredSpec()));
  Grid grid(GatheredSpec(), 1, 4);
  StartBoth(&grid, &one);
  for (uint64_t t = 1; t <= 6; ++t) {
    // Rank 3 holds no elements of `bias` and `scalar`, but always has gradients for them, which must have no effect.
    for (size_t p = 0; p < 5; ++p) {
      const bool has = p == 1 || p == 3 ? t % 3 != 0 : (t + p) % 4 != 0;
      one.has_grad[p] = has;
      for (int rank = 0; rank < 4; ++rank) grid[rank].has_grad[p] = has || (grid[rank].w[p].empty() && rank == 3);
    }
    StepBoth(&grid, &one, t);
    CHECK(StepsOf(grid[0], 1) == StepsOf(one, 1));
    CHECK(StepsOf(grid[3], 0) == StepsOf(one, 0));
  }
  CHECK(grid.AllHold(one.w));
  grid[2].has_grad[0] = !grid[2].has_grad[0];
  CheckStepFails(&grid, SHAMPOO_E_INVALID,
                 {"shard rank", "gradient for parameter \"matrix\"", "the step has changed nothing"});
}

TEST_CASE("a plan describes gathered blocks like the blocks of one rank and reports their owners") {
  for (const Kind kind : {Kind{1, 3}, Kind{2, 3}}) {
    const RankSpec spec = GatheredSpec();
    Rank one(Whole(spec));
    Grid grid(spec, kind.replicas, Divide(spec.params, Division::kFlat, kind.shards));
    StartBoth(&grid, &one);
    const std::vector<shampoo_block_info> expected = BlocksOf(one);
    size_t entries = 0;
    for (int rank = 0; rank < grid.world(); ++rank) {
      const std::vector<shampoo_block_info> blocks = BlocksOf(grid[rank]);
      REQUIRE(blocks.size() == expected.size());
      int owned = 0;
      for (size_t i = 0; i < blocks.size(); ++i) {
        const shampoo_block_info& info = blocks[i];
        CHECK(info.of_shard == 0);
        CHECK(info.flat_offset == expected[i].flat_offset);
        CHECK(std::equal(info.shape, info.shape + 8, expected[i].shape));
        CHECK(std::equal(info.stride, info.stride + 8, expected[i].stride));
        CHECK(info.owner < kind.replicas);
        CHECK(info.shard_owner < kind.shards);
        owned += info.owner * kind.shards + info.shard_owner == rank ? 1 : 0;
      }
      CHECK(owned > 0);
      for (const StateEntry& entry : EntriesOf(grid[rank])) {
        CHECK(entry.of_shard == 0);
        CHECK(entry.owner == rank / kind.shards);
        CHECK(entry.shard_owner == rank % kind.shards);
        entries += std::string(entry.key).starts_with("group.") ? 0 : 1;
      }
    }
    CHECK(entries == EntriesOf(one).size() - 2);
  }
  // With shard_mode=local, each block belongs to one shard.
  Grid grid(GatheredSpec("shard_mode=local"), 1, 3);
  RequireCreate(&grid);
  const std::vector<shampoo_block_info> blocks = BlocksOf(grid[1]);
  REQUIRE(!blocks.empty());
  CHECK(blocks[0].of_shard == 1);
  CHECK(blocks[0].shard_owner == 1);
}

TEST_CASE("create fails if ranks describe shards differently or have communicators with different callbacks") {
  for (int odd = 0; odd < 3; ++odd) {
    RankSpec spec = GatheredSpec();
    const Shards shards = Divide(spec.params, Division::kFlat, 3);
    spec.all_shards = shards;
    Grid other_shards(spec, 1, shards);
    other_shards.SetPatience(std::chrono::seconds(5));
    // Rank `odd` describes the shards of `matrix` differently from the other ranks: it assigns one element of shard
    // rank 1 to shard rank 0.
    auto& shards_of = other_shards.spec(odd).all_shards;
    shards_of[0][0].flat_count += 1;
    shards_of[1][0].flat_offset += 1;
    shards_of[1][0].flat_count -= 1;
    if (odd < 2) other_shards.spec(odd).params[0] = shards_of[static_cast<size_t>(odd)][0];
    other_shards.Create();
    CheckFailed(&other_shards, SHAMPOO_E_INVALID,
                {"shard rank ", "parameter 0: \"matrix\"", "held in shards (shard_form, shampoo_plan_add_shard)"});

    Grid other_callbacks(GatheredSpec(), 1, 3);
    other_callbacks.SetPatience(std::chrono::seconds(5));
    shampoo_comm_ops without = *other_callbacks.spec(odd).shard_ops;
    without.all_to_all = nullptr;
    other_callbacks.spec(odd).shard_ops = &without;
    other_callbacks.Create();
    CheckFailed(&other_callbacks, SHAMPOO_E_INVALID, {"a communicator without all_to_all"});
  }
  // Shards that are equal chunks of dim 0 need no call of shampoo_plan_add_shard(). One rank may make the call although
  // the other ranks do not.
  RankSpec spec = GatheredSpec();
  const Shards shards = Divide(spec.params, Division::kRows, 3);
  Grid grid(spec, 1, shards);
  grid.spec(1).all_shards = shards;
  RequireCreate(&grid);
}

TEST_CASE("creating an optimizer logs a summary of how parameters are preconditioned") {
  Listener log(2);
  RankSpec spec = GatheredSpec();
  spec.params.push_back({"empty", {0, 4}});
  const Shards shards = Divide(spec.params, Division::kFlat, 4);
  for (const char* const mode : {"gather", "local"}) {
    spec.keys.emplace_back("shard_mode", mode);
    Grid grid(spec, 1, shards);
    RequireCreate(&grid);
  }
  std::string text;
  for (const std::string& message : log.Take()) text += message + "\n";
  for (const char* const words :
       {"shards: shard_mode=gather, 4 shard ranks; number of parameters that are preconditioned whole: 5, as "
        "shards: 0, without elements on this rank: 1",
        // The message of the last rank, which holds shards of three parameters.
        "shards: shard_mode=local, 4 shard ranks; number of parameters that are preconditioned whole: 0, as "
        "shards: 3, without elements on this rank: 3"}) {
    CHECK_MESSAGE(Has(text, words), text);
  }
}

TEST_CASE("ranks send the number of bytes that the plan predicts") {
  for (const Kind kind : {Kind{1, 2}, Kind{1, 4}, Kind{1, 8}, Kind{2, 2}, Kind{2, 3}}) {
    for (const bool all_to_all : {true, false}) {
      for (const Keys& bucket : Combinations("comm_bucket_bytes=0|600")) {
        CAPTURE_ALL(kind, all_to_all, bucket);
        const RankSpec spec = GatheredSpec(bucket);
        Rank one(Whole(spec));
        Grid grid(spec, kind.replicas, Divide(spec.params, Division::kFlat, kind.shards));
        grid.SetAllToAll(all_to_all);
        StartBoth(&grid, &one);
        RunBoth(&grid, &one, 1, 1);
        for (const auto& comm : grid.comms()) comm->ResetCounts();
        RunBoth(&grid, &one, 2, 2);
        for (int rank = 0; rank < grid.world(); ++rank) {
          const int replica = rank / kind.shards;
          const int shard = rank % kind.shards;
          // The plan does not count the statuses (64 bytes each) that shard ranks exchange. In a step, shard ranks
          // exchange their statuses once or, with several replicas, twice.
          const int64_t status = kind.replicas > 1 ? 2 * 64 : 64;
          int64_t sent = grid.shards_of(replica).bytes_sent(shard) - status;
          if (kind.replicas > 1) sent += grid.replicas_of(shard).bytes_sent(replica);
          const char* const what = all_to_all ? "comm" : "comm.all_gather";
          for (int asked = 0; asked < grid.world(); ++asked) CHECK(grid[asked].PlanBytes(what, rank) == sent);
        }
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test

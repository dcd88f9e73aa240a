// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Ranks that gather the blocks of their shards (shard_mode gather) are bit-identical to one rank that holds everything.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/capi/behaviour/listener.h"
#include "tests/distributed/models.h"
#include "tests/distributed/random_shards.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

const Keys kGather = {{"shard_mode", "gather"}};

RankSpec GatheredSpec(const Keys& more = {}) { return AllOrdersSpec(kGather + more); }

// Returns the specification of one rank with the whole parameters.
RankSpec Whole(RankSpec spec) {
  spec.all_shards.clear();
  return spec;
}

// Compares the elements of the shards with those of the whole parameters.
void CheckSame(Grid* grid, const Rank& one) {
  for (int rank = 0; rank < grid->world(); ++rank) {
    CHECK(SameBits((*grid)[rank].w, PartOf(grid->spec(rank).params, one.w)));
  }
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

TEST_CASE("shards and replicas of shards are bit-identical to one rank for every kind of communication") {
  for (const Division division : {Division::kFlat, Division::kRows}) {
    for (const Kind kind : {Kind{1, 2}, Kind{1, 3}, Kind{1, 8}, Kind{2, 2}, Kind{2, 3}, Kind{4, 2}}) {
      for (const char* const balance : {"bytes", "cost"}) {
        for (const char* const communicate : {"updates", "params"}) {
          for (const char* const bucket : {"0", "600"}) {
            for (const bool all_to_all : {true, false}) {
              CAPTURE(static_cast<int>(division));
              CAPTURE(kind);
              CAPTURE(std::string(balance));
              CAPTURE(std::string(communicate));
              CAPTURE(std::string(bucket));
              CAPTURE(all_to_all);
              const RankSpec spec =
                  GatheredSpec({{"balance", balance}, {"communicate", communicate}, {"comm_bucket_bytes", bucket}});
              Rank one(Whole(spec));
              Grid grid(spec, kind.replicas, Divide(spec.params, division, kind.shards));
              grid.SetAllToAll(all_to_all);
              StartBoth(&grid, &one);
              RunBoth(&grid, &one, 1, 5);
              CheckSame(&grid, one);
              for (int rank = 0; rank < grid.world(); ++rank) {
                CHECK(StepsOf(grid[rank], 0) == 5);
                CHECK(StepsOf(grid[rank], 1) == 5);
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("gathered shards are bit-identical to one rank with threads, coupled decay, scaling and whole parameters") {
  for (const int shards : {2, 4}) {
    RankSpec spec = GatheredSpec({{"weight_decay_type", "coupled"}, {"gradient_scale", "0.5"}, {"threads", "3"}});
    spec.threads = 3;
    Shards layout = Divide(spec.params, Division::kFlat, shards);
    // Parameters of normalization layers and biases are often not sharded.
    for (auto& shard : layout) {
      for (const size_t p : {1, 3, 4}) shard[p] = spec.params[p];
    }
    Rank one(Whole(spec));
    Grid grid(spec, 1, layout);
    StartBoth(&grid, &one);
    RunBoth(&grid, &one, 1, 5);
    CheckSame(&grid, one);
  }
}

TEST_CASE("gathered shards of fused parameters are bit-identical to one rank, also if the parts are columns") {
  for (const char* const method : {"shampoo", "soap"}) {
    for (const Division division : {Division::kFlat, Division::kRows}) {
      CAPTURE(std::string(method));
      CAPTURE(static_cast<int>(division));
      RankSpec spec = GatheredSpec();
      spec.keys = Keys{{"method", method}, {"precondition_frequency", "2"}, {"use_merge_dims", "false"}} + kGather;
      spec.groups.clear();
      ParamSpec rows{"rows", {9, 4}}, columns{"columns", {4, 9}};
      rows.row_splits = columns.row_splits = {4, 2, 3};
      columns.fan = SHAMPOO_IN_OUT;
      spec.params = {rows, columns};
      Rank one(Whole(spec));
      Grid grid(spec, 1, Divide(spec.params, division, 3));
      StartBoth(&grid, &one);
      RunBoth(&grid, &one, 1, 5);
      CheckSame(&grid, one);
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
    for (uint64_t t = 1; t <= steps; ++t) {
      grid.FillGradients(100 + t);
      Fill(100 + t, &whole.g);
      grid.Step();
      whole.Step();
      RequireOk(grid);
    }
    CheckSame(&grid, whole);
  }
  CHECK(empty > count / 20);
  CHECK(rectangles > count / 2);
}

TEST_CASE("random shapes in random shards are bit-identical to one rank") { CheckRandomShapes(500); }

TEST_SUITE("long") {
  TEST_CASE("2000 random shapes in random shards are bit-identical to one rank") { CheckRandomShapes(2000); }
}

TEST_CASE("rectangles of two dims, as in tensor parallelism within data parallelism, are bit-identical to one rank") {
  RankSpec spec = GatheredSpec();
  spec.params = {{"matrix", {9, 7}}, {"tensor", {4, 6, 5}}};
  spec.groups.clear();
  Shards shards(4, spec.params);
  for (int64_t r = 0; r < 4; ++r) {
    for (ParamSpec& param : shards[static_cast<size_t>(r)]) {
      param.shard_form = 2;
      param.local_offset.assign(param.shape.size(), 0);
      param.local_shape = param.shape;
      for (size_t k = 0; k < 2; ++k) {
        const int64_t half = (param.shape[k] + 1) / 2;
        const bool second = (k == 0 ? r / 2 : r % 2) != 0;
        param.local_offset[k] = second ? half : 0;
        param.local_shape[k] = second ? param.shape[k] - half : half;
      }
    }
  }
  spec.all_shards = shards;
  Rank one(Whole(spec));
  Grid grid(spec, 2, shards);
  StartBoth(&grid, &one);
  for (uint64_t t = 1; t <= 4; ++t) {
    grid.FillGradients(t);
    Fill(t, &one.g);
    grid.Step();
    one.Step();
    RequireOk(grid);
  }
  CheckSame(&grid, one);
}

TEST_CASE(
    "missing gradients on one rank or on all, and a group without gradients, give results bit-identical to one rank") {
  Rank one(Whole(GatheredSpec()));
  Grid grid(GatheredSpec(), 1, 4);
  StartBoth(&grid, &one);
  for (uint64_t t = 1; t <= 6; ++t) {
    grid.FillGradients(t);
    Fill(t, &one.g);
    // Rank 3 holds no elements of `bias` and `scalar`. This rank always has gradients for them, which must not matter.
    for (size_t p = 0; p < 5; ++p) {
      const bool has = p == 1 || p == 3 ? t % 3 != 0 : (t + p) % 4 != 0;
      one.has_grad[p] = has;
      for (int rank = 0; rank < 4; ++rank) grid[rank].has_grad[p] = has || (grid[rank].w[p].empty() && rank == 3);
    }
    grid.Step();
    one.Step();
    RequireOk(grid);
    CHECK(StepsOf(grid[0], 1) == StepsOf(one, 1));
    CHECK(StepsOf(grid[3], 0) == StepsOf(one, 0));
  }
  CheckSame(&grid, one);
  grid[2].has_grad[0] = !grid[2].has_grad[0];
  const auto before = Everything(&grid);
  grid.Step();
  CHECK_MESSAGE(grid.All(SHAMPOO_E_INVALID), grid.Errors());
  for (const char* const word : {"shard rank", "gradient for parameter \"matrix\"", "nothing has changed"}) {
    CHECK_MESSAGE(Has(grid[0].error, word), grid[0].error);
  }
  CHECK(Everything(&grid) == before);
}

TEST_CASE("a plan reports that gathered blocks are whole and who owns them") {
  for (const Kind kind : {Kind{1, 3}, Kind{2, 3}}) {
    const RankSpec spec = GatheredSpec();
    Rank one(Whole(spec));
    Grid grid(spec, kind.replicas, Divide(spec.params, Division::kFlat, kind.shards));
    StartBoth(&grid, &one);
    int64_t blocks = 0;
    REQUIRE(shampoo_plan_block_count(one.plan, &blocks) == SHAMPOO_OK);
    std::vector<int64_t> entries(static_cast<size_t>(blocks));
    std::vector<int> owned(static_cast<size_t>(grid.world()));
    for (int64_t i = 0; i < blocks; ++i) {
      shampoo_block_info expected = SHAMPOO_BLOCK_INFO_INIT;
      REQUIRE(shampoo_plan_block(one.plan, i, &expected) == SHAMPOO_OK);
      for (int rank = 0; rank < grid.world(); ++rank) {
        shampoo_block_info info = SHAMPOO_BLOCK_INFO_INIT;
        REQUIRE(shampoo_plan_block(grid[rank].plan, i, &info) == SHAMPOO_OK);
        CHECK(info.of_shard == 0);
        CHECK(info.flat_offset == expected.flat_offset);
        CHECK(std::equal(info.shape, info.shape + 8, expected.shape));
        CHECK(std::equal(info.stride, info.stride + 8, expected.stride));
        CHECK(info.owner < kind.replicas);
        CHECK(info.shard_owner < kind.shards);
        if (info.owner * kind.shards + info.shard_owner == rank) ++owned[static_cast<size_t>(rank)];
      }
    }
    int64_t sum = 0;
    int64_t of_all = 0;
    for (int rank = 0; rank < grid.world(); ++rank) {
      CHECK(owned[static_cast<size_t>(rank)] > 0);
      int64_t count = 0;
      REQUIRE(shampoo_state_count(grid[rank].optimizer, &count) == SHAMPOO_OK);
      for (int64_t i = 0; i < count; ++i) {
        shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
        REQUIRE(shampoo_state_describe(grid[rank].optimizer, i, &entry) == SHAMPOO_OK);
        CHECK(entry.of_shard == 0);
        CHECK(entry.owner == rank / kind.shards);
        CHECK(entry.shard_owner == rank % kind.shards);
        sum += std::string(entry.key).starts_with("group.") ? 0 : 1;
      }
    }
    REQUIRE(shampoo_state_count(one.optimizer, &of_all) == SHAMPOO_OK);
    CHECK(sum == of_all - 2);
  }
  // The other shard mode with the same shards.
  RankSpec local = GatheredSpec({{"shard_mode", "local"}});
  Grid grid(local, 1, 3);
  RequireCreate(&grid);
  shampoo_block_info info = SHAMPOO_BLOCK_INFO_INIT;
  REQUIRE(shampoo_plan_block(grid[1].plan, 0, &info) == SHAMPOO_OK);
  CHECK(info.of_shard == 1);
  CHECK(info.shard_owner == 1);
}

TEST_CASE("descriptions of shards and capabilities of communicators must be the same on all ranks") {
  for (int odd = 0; odd < 3; ++odd) {
    RankSpec spec = GatheredSpec();
    const Shards shards = Divide(spec.params, Division::kFlat, 3);
    spec.all_shards = shards;
    Grid other_shards(spec, 1, shards);
    other_shards.SetPatience(std::chrono::seconds(5));
    // On one rank, the description of rank 0 has one more of the 63 elements of `matrix`, and that of rank 1 has one
    // fewer.
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
    CHECK_MESSAGE(other_callbacks.All(SHAMPOO_E_INVALID), other_callbacks.Errors());
    CHECK_MESSAGE(Has(other_callbacks[0].error, "a communicator without all_to_all"), other_callbacks[0].error);
  }
  // The default layout and its explicit description are the same.
  RankSpec spec = GatheredSpec();
  const Shards shards = Divide(spec.params, Division::kRows, 3);
  Grid grid(spec, 1, shards);
  grid.spec(1).all_shards = shards;
  RequireCreate(&grid);
}

TEST_CASE("the log of create summarizes how parameters are preconditioned") {
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
       {"shards: shard_mode gather, 4 shard ranks; 5 parameters are preconditioned whole, 0 as pieces of this rank's "
        "shards, 1 have no elements here and are skipped",
        // The last rank holds pieces of three parameters.
        "shards: shard_mode local, 4 shard ranks; 0 parameters are preconditioned whole, 3 as pieces of this rank's "
        "shards, 3 have no elements here and are skipped"}) {
    CHECK_MESSAGE(Has(text, words), text);
  }
}

TEST_CASE("ranks send the number of bytes that the plan predicts") {
  for (const Kind kind : {Kind{1, 2}, Kind{1, 4}, Kind{1, 8}, Kind{2, 2}, Kind{2, 3}}) {
    for (const bool all_to_all : {true, false}) {
      for (const char* const bucket : {"0", "600"}) {
        const RankSpec spec = GatheredSpec({{"comm_bucket_bytes", bucket}});
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
          // The plan does not count the statuses that the shards exchange: once in a step and, with replicas, once more
          // after the check.
          const int64_t status = kind.replicas > 1 ? 2 * 64 : 64;
          int64_t sent = grid.shards_of(replica).bytes_sent(shard) - status;
          if (kind.replicas > 1) sent += grid.replicas_of(shard).bytes_sent(replica);
          const char* const what = all_to_all ? "comm" : "comm.all_gather";
          for (int asked = 0; asked < grid.world(); ++asked) {
            CHECK(grid[asked].PlanBytes(what, rank) == sent);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test

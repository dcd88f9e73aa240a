// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests replicas that are divided into shards (HSDP). Every rank is in two communicators: one connects the replicas of
// its shard, and the other connects the shards of its replica.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <utility>

#include "tests/capture.h"
#include "tests/distributed/models.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

constexpr Kind kHybridKinds[] = {{2, 2}, {2, 4}, {4, 2}};

// Checks that several replicas get the same parameters as a single replica. In some steps, a gradient is missing.
void CheckReplicasOfShards(const RankSpec& spec, const Kind& kind, Division division) {
  const Shards shards = Divide(spec.params, division, kind.shards);
  Grid one(spec, 1, shards);
  Grid hybrid(spec, kind.replicas, shards);
  RequireStart(&one);
  RequireStart(&hybrid);
  const Tensors start = one[0].w;
  RunStepsWithMissingGradients(&one, 1, 6);
  RunStepsWithMissingGradients(&hybrid, 1, 6);
  CHECK_FALSE(SameBits(one[0].w, start));
  for (int rank = 0; rank < hybrid.world(); ++rank) {
    CHECK(SameBits(hybrid[rank].w, one[rank % kind.shards].w));
    CHECK(StepsOf(hybrid[rank], 0) == 6);
    CHECK(StepsOf(hybrid[rank], 1) == 6);  // "bias", a parameter of group 1, has a gradient in every step
  }
}

TEST_CASE("replicas of shards are bit-identical to one replica") {
  for (const Division division : {Division::kFlat, Division::kRows}) {
    for (const Kind kind : kHybridKinds) {
      for (const Keys& keys : Combinations("balance=bytes|cost communicate=updates|params comm_bucket_bytes=0|600")) {
        CAPTURE_ALL(static_cast<int>(division), kind, keys);
        CheckReplicasOfShards(AllOrdersSpec(keys), kind, division);
      }
    }
  }
}

TEST_CASE("with each method of kOtherMethods, replicas of shards are bit-identical to one replica") {
  for (const Keys& method : kOtherMethods) {
    for (const Division division : {Division::kFlat, Division::kRows}) {
      for (const char* const communicate : {"updates", "params"}) {
        CAPTURE_ALL(method, static_cast<int>(division), communicate);
        CheckReplicasOfShards(AllOrdersSpecOf(method, {{"communicate", communicate}}), {2, 2}, division);
      }
    }
  }
}

TEST_CASE("jobs that run at the same time with separate communicators are bit-identical to one rank") {
  Rank one(AllOrdersSpec());
  RequireOk(one);
  Fill(1, &one.w);
  for (uint64_t t = 1; t <= 5; ++t) {
    Fill(100 + t, &one.g);
    RequireStep(&one);
  }
  for (const int size : {2, 4}) {
    CAPTURE(size);
    std::vector<std::unique_ptr<Grid>> groups;
    for (int group = 0; group < 8 / size; ++group) groups.push_back(std::make_unique<Grid>(AllOrdersSpec(), size, 1));
    const auto at_once = [&](auto&& work) {
      OnEveryRank(8 / size, [&](int group) { work(groups[static_cast<size_t>(group)].get()); });
    };
    at_once([](Grid* job) { job->Create(); });
    for (const auto& job : groups) REQUIRE(job->All(SHAMPOO_OK));
    for (const auto& job : groups) job->FillParams(1);
    for (uint64_t t = 1; t <= 5; ++t) {
      at_once([&](Grid* job) {
        job->FillGradients(100 + t);
        job->Step();
      });
    }
    for (const auto& job : groups) {
      CHECK(job->All(SHAMPOO_OK));
      CHECK(job->AllHold(one.w));
    }
  }
}

TEST_CASE("all ranks that hold the same shard agree on the owners, and every rank owns a block") {
  for (const char* const balance : {"bytes", "cost"}) {
    for (const Kind kind : kHybridKinds) {
      CAPTURE_ALL(balance, kind);
      Grid grid(AllOrdersSpec({{"balance", balance}}), kind);
      RequireStart(&grid);
      std::vector<std::vector<int32_t>> owners(static_cast<size_t>(grid.world()));
      for (int rank = 0; rank < grid.world(); ++rank) {
        std::vector<int> owned(static_cast<size_t>(kind.replicas));
        for (const shampoo_block_info& info : BlocksOf(grid[rank])) {
          CHECK(info.shard_owner == rank % kind.shards);
          owners[static_cast<size_t>(rank)].push_back(info.owner);
          ++owned[static_cast<size_t>(info.owner)];
        }
        for (const int count : owned) CHECK(count > 0);
        CHECK(owners[static_cast<size_t>(rank)] == owners[static_cast<size_t>(rank % kind.shards)]);
      }
    }
  }
}

// Checks that the third step fails on all ranks with the same message, and changes neither the parameters nor the step
// counter of group 0.
void CheckStops(Grid* grid, shampoo_status status, const std::vector<std::string>& words) {
  const std::vector<Tensors> before = ParamsOf(grid);
  grid->Step();
  CheckFailed(grid, status, words);
  CHECK(SameBits(ParamsOf(grid), before));
  for (int rank = 0; rank < grid->world(); ++rank) CHECK(StepsOf((*grid)[rank], 0) == 2);
}

TEST_CASE("an error on one rank fails the step on all ranks, and the job continues after the error is corrected") {
  for (const char* const what : {"nan", "missing", "lr", "step"}) {
    for (int bad_rank = 0; bad_rank < 4; ++bad_rank) {
      CAPTURE_ALL(what, bad_rank);
      Grid grid(AllOrdersSpec(), 2, 2);
      RequireStart(&grid);
      RunStepsWithMissingGradients(&grid, 1, 2);
      grid.FillGradients(103);
      Rank& rank = grid[bad_rank];
      if (what == std::string("nan")) {
        const float kept = std::exchange(rank.g[0][1], NAN);
        CheckStops(&grid, SHAMPOO_E_NUMERIC,
                   {"rank " + std::to_string(bad_rank / 2), "shard rank " + std::to_string(bad_rank % 2), "NaN",
                    "\"matrix\""});
        rank.g[0][1] = kept;
      } else if (what == std::string("missing")) {
        rank.has_grad[0] = false;
        CheckStops(&grid, SHAMPOO_E_INVALID, {"gradient", "\"matrix\""});
        rank.has_grad[0] = true;
      } else if (what == std::string("lr")) {
        REQUIRE(shampoo_optimizer_set(rank.optimizer, 0, "lr", 0.5) == SHAMPOO_OK);
        CheckStops(&grid, SHAMPOO_E_INVALID, {"learning rate"});
        REQUIRE(shampoo_optimizer_set(rank.optimizer, 0, "lr", 0.01) == SHAMPOO_OK);
      } else {
        SetSteps(rank, 1, 1);
        CheckStops(&grid, SHAMPOO_E_STATE, {"step"});
        SetSteps(rank, 1, 2);
      }
      RunStepsWithMissingGradients(&grid, 4, 5);
      for (int r = 2; r < 4; ++r) CHECK(SameBits(grid[r].w, grid[r - 2].w));
    }
  }
}

TEST_CASE("an error that only the ranks of one shard can detect fails the step on all ranks") {
  for (int bad_rank = 0; bad_rank < 4; ++bad_rank) {
    CAPTURE(bad_rank);
    Grid grid(AllOrdersSpec("on_nonfinite=skip_block"), 2, 2);
    RequireStart(&grid);
    RunStepsWithMissingGradients(&grid, 1, 2);
    grid.FillGradients(103);
    const float kept = std::exchange(grid[bad_rank].g[0][1], NAN);
    // With skip_block, NaN itself is not an error. The two ranks that hold the shard of bad_rank detect that their
    // gradients differ. The ranks of the other shard find no error.
    const std::vector<Tensors> before = ParamsOf(&grid);
    grid.Step();
    CHECK_MESSAGE(grid.All(SHAMPOO_E_NUMERIC), grid.Errors());
    CHECK(SameBits(ParamsOf(&grid), before));
    for (int rank = 0; rank < 4; ++rank) {
      CHECK_MESSAGE(Has(grid[rank].error, "parameter \"matrix\" with a gradient that is too large or not finite"),
                    grid[rank].error);
    }
    grid[bad_rank].g[0][1] = kept;
    RequireStep(&grid);
    for (int rank = 2; rank < 4; ++rank) CHECK(SameBits(grid[rank].w, grid[rank - 2].w));
  }
}

TEST_CASE("if replicas are divided into different shards, creating the optimizers fails on all ranks") {
  Grid grid(AllOrdersSpec(), 2, 2);
  grid.SetPatience(std::chrono::seconds(5));
  grid.spec(3).params[0].flat_offset -= 1;
  grid.spec(3).params[0].flat_count += 1;
  grid.Create();
  // Ranks 1 and 3 hold the second shard and compare their descriptions of the parameters.
  CheckFailed(&grid, SHAMPOO_E_INVALID,
              {"rank 1 has \"parameter 0: \"matrix\"", "elements [31, 63)", "elements [32, 63)"});
}

TEST_CASE("a failure of any communicator makes a step and all later steps fail on all ranks") {
  struct Mode {
    Keys keys;
    int64_t calls;       // for each k from 1 to `calls`, the test runs a job in which the k-th collective fails
    bool skips = false;  // every step is skipped because a gradient has NaN
  };
  for (const Mode& mode : {Mode{"shard_mode=local comm_bucket_bytes=0", 2},
                           {"shard_mode=gather comm_bucket_bytes=0", 5},
                           {"shard_mode=gather comm_bucket_bytes=600", 12},
                           {"shard_mode=gather comm_bucket_bytes=0", 12, true},
                           {"shard_mode=gather comm_bucket_bytes=600", 20, true}}) {
    for (const bool with_abort : {false, true}) {
      for (const bool of_shards : {false, true}) {
        for (const bool on_one : {true, false}) {
          for (int64_t k = 1; k <= mode.calls; ++k) {
            CAPTURE_ALL(mode.keys, with_abort, of_shards, on_one, k, mode.skips);
            Grid grid(AllOrdersSpec(mode.keys + "on_nonfinite=skip_step"), 2, 2, with_abort);
            RequireStart(&grid);
            ThreadComm* const faulty = of_shards ? &grid.shards_of(0) : &grid.replicas_of(0);
            faulty->ResetCounts();
            (on_one ? faulty->after : faulty->before) = [&](int rank, int64_t call) {
              return call == k && (!on_one || rank == 0) ? 7 : 0;
            };
            grid.FillGradients(2);
            for (int rank = 0; rank < 4 && mode.skips; rank += 2) grid[rank].g[0][1] = NAN;
            // After its first failed step, each rank makes two more steps, like a caller that checks the status late.
            grid.StepUntilFailure(2);
            CHECK_MESSAGE(grid.All(SHAMPOO_E_COMM), grid.Errors());
            // Later steps fail, too, and no rank waits for another rank.
            grid.Step();
            CHECK_MESSAGE(grid.All(SHAMPOO_E_COMM), grid.Errors());
            CHECK(grid.timeouts() == 0);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test

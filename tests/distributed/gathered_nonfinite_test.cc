// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of NaN, infinity and too large numbers in blocks that are gathered from shards. All ranks must handle these
// numbers like a single rank that holds the whole parameters.
#include <doctest/doctest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <string>

#include "tests/capi/behaviour/overflow_cases.h"
#include "tests/capture.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

constexpr Kind kGatheringKinds[] = {{1, 2, "gather"}, {1, 4, "gather"}, {2, 2, "gather"}, {2, 3, "gather"}};

// A grid of ranks that hold shards, and a single rank that holds the whole parameters.
struct GatheredPair {
  GatheredPair(const RankSpec& spec, const Kind& kind) : one(spec), grid(spec, kind) {
    RequireStart(&grid);
    RequireOk(one);
    Fill(1, &one.w);
  }
  // Sets the gradients of the single rank to `whole`, and those of each rank of the grid to its part of `whole`.
  void SetGradients(const Tensors& whole) {
    one.g = whole;
    grid.SetGradients(whole);
  }
  void SetRandomGradients(uint64_t seed, size_t param, const float* bad) {
    Tensors whole = one.g;
    Fill(seed, &whole);
    if (bad != nullptr) whole[param][2] = *bad;
    SetGradients(whole);
  }
  void StepBoth() {
    grid.Step();
    one.Step();
  }

  Rank one;
  Grid grid;
};

RankSpec GatheredNonfiniteSpec(const Keys& more = {}) {
  return {.keys = "max_preconditioner_dim=4 momentum=0.5" + more,
          .groups = {"lr=0.1 max_preconditioner_dim=3" + more},
          .params = {{"matrix", {9, 7}}, {"vector", {12}, 1}, {"tensor", {3, 4, 2}}}};
}

TEST_CASE("NaN, infinity and too large gradients in gathered shards are handled as on one rank") {
  const float bad[] = {NAN, INFINITY, 1e30F};
  for (const Keys& keys :
       Combinations("on_nonfinite=error|skip_block|skip_step comm_bucket_bytes=0|600 grafting=adam|none")) {
    for (const Kind kind : kGatheringKinds) {
      CAPTURE_ALL(keys, kind);
      GatheredPair pair(GatheredNonfiniteSpec(keys), kind);
      for (uint64_t t = 1; t <= 9; ++t) {
        pair.SetRandomGradients(t, t % 2, t % 3 == 0 ? &bad[t / 3 - 1] : nullptr);
        const auto before = Everything(&pair.grid);
        pair.StepBoth();
        CHECK_MESSAGE(pair.grid.All(pair.one.status), pair.grid.Errors());
        if (pair.one.status == SHAMPOO_OK) continue;
        CHECK(Everything(&pair.grid) == before);
        // The message is that of the single rank, so it names the position of the element in the whole parameter.
        CheckFailed(&pair.grid, pair.one.status, {pair.one.error});
        CHECK_FALSE(Has(pair.grid[0].error, "Other ranks"));
      }
      CHECK(pair.grid.AllHold(pair.one.w));
      const double skipped = pair.one.Stat("skipped_steps");
      for (int rank = 0; rank < pair.grid.world(); ++rank) CHECK(pair.grid[rank].Stat("skipped_steps") == skipped);
      CHECK((skipped > 0) == (keys.Value("on_nonfinite") == "skip_step"));
    }
  }
}

TEST_CASE("with coupled weight decay, all ranks report which element of the whole parameter is NaN") {
  for (const Kind kind : kGatheringKinds) {
    GatheredPair pair(GatheredNonfiniteSpec("weight_decay=0.1 weight_decay_type=coupled"), kind);
    pair.SetRandomGradients(1, 0, nullptr);
    pair.StepBoth();
    CHECK(pair.grid.AllHold(pair.one.w));
    pair.one.w[0][40] = NAN;
    pair.grid.SetParams(pair.one.w);
    pair.StepBoth();
    CheckFailed(&pair.grid, SHAMPOO_E_NUMERIC, {pair.one.error, "parameter \"matrix\" has NaN at element 40"});
  }
}

// If a rank skips an update, it sends a mark instead of the update: a NaN in which all bits are set (kSkippedMark).
TEST_CASE("if a parameter contains the NaN that marks skipped updates, it is updated as on one rank") {
  for (const char* const communicate : {"updates", "params"}) {
    CAPTURE(communicate);
    GatheredPair pair({.keys = {{"communicate", communicate}}, .params = {{"matrix", {8, 8}}}}, kGatheringKinds[0]);
    const uint32_t all_ones = 0xffffffff;
    for (const size_t at : {size_t{0}, size_t{40}}) std::memcpy(&pair.one.w[0][at], &all_ones, sizeof all_ones);
    pair.grid.SetParams(pair.one.w);
    pair.SetRandomGradients(1, 0, nullptr);
    pair.StepBoth();
    REQUIRE_MESSAGE(pair.grid.All(pair.one.status), pair.grid.Errors());
    CHECK(pair.one.Stat("nonfinite_blocks") == 0);
    for (int rank = 0; rank < 2; ++rank) {
      const std::vector<float> expected = PartOf(pair.grid.spec(rank).params, pair.one.w)[0];
      for (size_t i = 0; i < expected.size(); ++i) {
        const float w = pair.grid[rank].w[0][i];
        CHECK((w == expected[i] || (std::isnan(w) && std::isnan(expected[i]))));
      }
    }
  }
}

TEST_CASE("a gathered block whose new value would not be finite is unchanged, as on one rank") {
  for (const OverflowCase& one : OverflowCases(FLT_MAX)) {
    for (const Kind kind : kGatheringKinds) {
      CAPTURE_ALL(one.what, kind);
      GatheredPair pair(
          {.keys = "lr=1 max_preconditioner_dim=4" + one.keys, .params = {{"bad", {9, 7}}, {"sound", {5, 4}}}}, kind);
      const auto set = [&](Rank* rank) {
        std::fill(rank->w[0].begin(), rank->w[0].end(), static_cast<float>(one.param));
        if (one.has_momentum) FillStates(*rank, "bad/", "/momentum", static_cast<float>(one.momentum));
      };
      set(&pair.one);
      for (int rank = 0; rank < pair.grid.world(); ++rank) set(&pair.grid[rank]);
      const Tensors before = pair.one.w;
      pair.SetRandomGradients(5, 0, nullptr);
      pair.StepBoth();
      RequireOk(pair.grid);
      CHECK(pair.grid.AllHold(pair.one.w));
      CHECK(SameBits({pair.one.w[0]}, {before[0]}));
      CHECK_FALSE(SameBits({pair.one.w[1]}, {before[1]}));
      CHECK(pair.one.Stat("nonfinite_blocks") == 6);
      pair.StepBoth();
      CheckFailed(&pair.grid, SHAMPOO_E_NUMERIC, {"the direction of block bad/0 was not finite"});
    }
  }
}

TEST_CASE("NaN in a gradient of one replica is reported by all ranks as a difference between replicas") {
  GatheredPair pair(GatheredNonfiniteSpec("on_nonfinite=skip_block"), kGatheringKinds[2]);
  pair.SetRandomGradients(1, 0, nullptr);
  pair.StepBoth();
  pair.grid[3].g[0][1] = NAN;
  const std::vector<Tensors> before = ParamsOf(&pair.grid);
  pair.grid.Step();
  CHECK_MESSAGE(pair.grid.All(SHAMPOO_E_NUMERIC), pair.grid.Errors());
  CHECK_MESSAGE(Has(pair.grid.Errors(), "Gradients must be the same on all ranks"), pair.grid.Errors());
  CHECK(SameBits(ParamsOf(&pair.grid), before));
}

// In each step, all elements of the gradient of "large" are 200, and those of the other gradients are 1. The preset of
// the tests, shampoo_2024, sets beta2 to 1 and gives vectors factor matrices. After the first step, all elements of the
// f16 factor matrix of "large" are 200^2. After the second step, they would be 2 * 200^2, which is too large for f16.
TEST_CASE(
    "if a state of a gathered block would overflow, all ranks skip the block and report this with on_nonfinite=error") {
  for (const char* const choice : {"error", "skip_block"}) {
    for (const Kind kind : kGatheringKinds) {
      CAPTURE_ALL(choice, kind);
      GatheredPair pair({.keys = {{"factor_dtype", "f16"}, {"beta1", "0"}, {"on_nonfinite", choice}},
                         .params = {{"large", {8}}, {"sound", {8}}, {"other", {8}}, {"last", {8}}}},
                        kind);
      Tensors whole = pair.one.g;
      for (std::vector<float>& g : whole) std::fill(g.begin(), g.end(), 1.0F);
      whole[0].assign(8, 200.0F);
      pair.SetGradients(whole);
      RequireStep(&pair.grid);
      const std::vector<Tensors> before = ParamsOf(&pair.grid);
      RequireStep(&pair.grid);
      for (int rank = 0; rank < pair.grid.world(); ++rank) {
        const Tensors& w = pair.grid[rank].w;
        CHECK(w[0] == before[static_cast<size_t>(rank)][0]);
        if (!w[1].empty()) CHECK(w[1] != before[static_cast<size_t>(rank)][1]);
      }
      pair.grid.Step();
      if (choice == std::string("error")) {
        CheckFailed(&pair.grid, SHAMPOO_E_NUMERIC, {"block large/0"});
      } else {
        RequireOk(pair.grid);
      }
    }
  }
}

TEST_CASE("roots that fail too often on the owner of a gathered block are reported by all ranks in the same step") {
  for (const Kind kind : kGatheringKinds) {
    for (const Keys& keys : Combinations("exponent_multiplier=10 root_failure_tolerance=2 max_preconditioner_dim=1 "
                                         "comm_bucket_bytes=0|200")) {
      CAPTURE_ALL(kind, keys);
      GatheredPair pair({.keys = keys, .params = {{"first", {5}}, {"second", {1}}, {"third", {1}}, {"fourth", {5}}}},
                        kind);
      Tensors whole = pair.one.g;
      for (std::vector<float>& g : whole) std::fill(g.begin(), g.end(), 1.0F);
      whole[1][0] = 0;  // makes the root of "second" fail: see FailingRoots() in nonfinite_test.cc
      pair.SetGradients(whole);
      for (int refresh = 1; refresh <= 4; ++refresh) {
        pair.StepBoth();
        CHECK_MESSAGE(pair.grid.All(SHAMPOO_OK), pair.grid.Errors());
        if (refresh < 3) continue;
        CheckStepFails(&pair.grid, SHAMPOO_E_NUMERIC,
                       {"the inverse root of second/0/factor.0 could not be computed at " + std::to_string(refresh) +
                        " refreshes in a row"});
        pair.one.Step();
        CHECK(pair.one.status == SHAMPOO_E_NUMERIC);
      }
      CHECK(pair.grid.AllHold(pair.one.w));
    }
  }
}

TEST_CASE("an update that does not fit communication_dtype is skipped, and results equal those of unsharded replicas") {
  for (const Keys& keys : Combinations("communication_dtype=f16 on_nonfinite=skip_block grafting=adam "
                                       "communicate=updates|params lr=0.01|1e6")) {
    for (const Kind kind : kGatheringKinds) {
      CAPTURE_ALL(keys, kind);
      const RankSpec spec = GatheredNonfiniteSpec(keys);
      GatheredPair pair(spec, kind);
      Grid replicas(spec, 2, 1);
      RequireStart(&replicas);
      for (uint64_t t = 1; t <= 3; ++t) {
        pair.SetRandomGradients(t, 0, nullptr);
        replicas.SetGradients(pair.one.g);
        RequireStep(&pair.grid);
        RequireStep(&replicas);
      }
      CHECK(pair.grid.AllHold(replicas[0].w));
    }
  }
}

}  // namespace
}  // namespace shampoo_test

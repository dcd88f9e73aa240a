// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests that several ranks handle values that are too large, infinite or NaN in the same way as a single rank.
#include <doctest/doctest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <memory>
#include <string>

#include "tests/capi/behaviour/overflow_cases.h"
#include "tests/capture.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

constexpr Kind kLocalKinds[] = {{2, 1}, {4, 1}, {1, 2}, {1, 4}, {2, 2}};

RankSpec NonfiniteSpec(const Keys& more = {}) {
  return {.keys = "max_preconditioner_dim=4 grafting=adam momentum=0.5" + more,
          .groups = {"lr=0.1 max_preconditioner_dim=3" + more},
          .params = {{"matrix", {9, 7}}, {"vector", {12}, 1}, {"tensor", {3, 4, 2}}}};
}

// A Grid with shard_mode=local. For comparison, an additional rank for each shard trains this shard alone.
struct LocalPair {
  LocalPair(const RankSpec& spec, Kind kind) : grid(spec, kind) {
    RequireStart(&grid);
    for (int s = 0; s < kind.shards; ++s) {
      alone.push_back(std::make_unique<Rank>(grid.Alone(s)));
      RequireOk(*alone.back());
      alone.back()->w = grid[s].w;
    }
  }
  // Fills the gradients. If `value` is not nullptr, sets element 2 of the gradient of parameter `param` to
  // *value on every rank.
  void FillGradients(uint64_t seed, size_t param = 0, const float* value = nullptr) {
    grid.FillGradients(seed);
    for (int rank = 0; rank < grid.world() && value != nullptr; ++rank) grid[rank].g[param][2] = *value;
    for (size_t s = 0; s < alone.size(); ++s) alone[s]->g = grid[static_cast<int>(s)].g;
  }
  void StepBoth() {
    RequireStep(&grid);
    for (const auto& rank : alone) RequireStep(rank.get());
  }
  void CheckSame() {
    for (int rank = 0; rank < grid.world(); ++rank) {
      CHECK(SameBits(grid[rank].w, alone[static_cast<size_t>(rank % grid.shards())]->w));
    }
  }

  Grid grid;
  std::vector<std::unique_ptr<Rank>> alone;
};

TEST_CASE(
    "if a gradient is invalid on all ranks, the step fails, and later steps are bit-identical to those of one rank") {
  const float bad[] = {NAN, INFINITY, 1e30F};
  for (const Kind kind : kLocalKinds) {
    for (const Keys& bucket : Combinations("comm_bucket_bytes=0|600")) {
      CAPTURE_ALL(kind, bucket);
      LocalPair pair(NonfiniteSpec(bucket), kind);
      for (uint64_t t = 1; t <= 9; ++t) {
        if (t % 3 != 0) {
          pair.FillGradients(t);
          pair.StepBoth();
          continue;
        }
        pair.FillGradients(t, t % 2, &bad[t / 3 - 1]);
        CheckStepFails(&pair.grid, SHAMPOO_E_NUMERIC);
        CHECK_FALSE_MESSAGE(Has(pair.grid[0].error, "Other ranks"), pair.grid[0].error);
        for (const auto& rank : pair.alone) {
          rank->Step();
          CHECK(rank->status == SHAMPOO_E_NUMERIC);
        }
      }
      pair.CheckSame();
    }
  }
}

TEST_CASE("all ranks skip the block or the step if a gradient has NaN or is too large for a state") {
  struct Bad {
    float value;
    Keys keys;
  };
  for (const char* const choice : {"skip_block", "skip_step"}) {
    for (const Bad& bad : {Bad{NAN, "grafting=adam communicate=updates"},
                           {NAN, "grafting=adam communicate=params"},
                           {1e30F, "grafting=adam communicate=updates"},
                           {-1e30F, "grafting=adagrad communicate=updates"},
                           {5e19F, "grafting=adagrad communicate=updates"}}) {
      for (const Kind kind : kLocalKinds) {
        CAPTURE_ALL(choice, kind, bad.value, bad.keys);
        LocalPair pair(NonfiniteSpec(bad.keys + Keys{{"on_nonfinite", choice}}), kind);
        for (uint64_t t = 1; t <= 7; ++t) {
          pair.FillGradients(t, t % 2, t % 3 == 0 ? &bad.value : nullptr);
          pair.StepBoth();
        }
        pair.CheckSame();
        for (int rank = 0; rank < pair.grid.world(); ++rank) {
          CHECK(pair.grid[rank].Stat("nonfinite_blocks") == 2);
          CHECK(pair.grid[rank].Stat("skipped_steps") == (choice == std::string("skip_step") ? 2 : 0));
        }
      }
    }
  }
}

TEST_CASE("with on_nonfinite=skip_step, all ranks skip a step in which the gradient of one shard has NaN") {
  for (const Kind kind : {Kind{1, 2}, Kind{1, 4}, Kind{2, 2}}) {
    CAPTURE(kind);
    LocalPair pair(NonfiniteSpec("on_nonfinite=skip_step"), kind);
    for (uint64_t t = 1; t <= 3; ++t) {
      pair.FillGradients(t);
      if (t != 2) {
        pair.StepBoth();
        continue;
      }
      for (int replica = 0; replica < kind.replicas; ++replica) pair.grid[replica * kind.shards + 1].g[0][3] = NAN;
      const auto before = Everything(&pair.grid);
      RequireStep(&pair.grid);
      CHECK(Everything(&pair.grid) == before);
      for (int rank = 0; rank < pair.grid.world(); ++rank) CHECK(pair.grid[rank].Stat("skipped_steps") == 1);
    }
    pair.CheckSame();
  }
}

// With the gradients of FillOverflow, the factor matrix of "large" overflows its dtype f16 in the second step. No other
// factor matrix overflows.
RankSpec OverflowSpec(const Keys& more) {
  return {.keys = "factor_dtype=f16 beta1=0" + more,
          .params = {{"large", {8}}, {"sound", {8}}, {"other", {8}}, {"last", {8}}}};
}
void FillOverflow(Rank* rank) {
  for (std::vector<float>& g : rank->g) std::fill(g.begin(), g.end(), 1.0F);
  for (size_t i = 0; i < rank->g[0].size(); ++i) rank->g[0][i] = 200;
}

TEST_CASE("a state that would overflow is an error on all ranks, although only the owner of its block detects this") {
  for (const Kind kind : {Kind{2, 1}, Kind{4, 1}, Kind{1, 2}, Kind{2, 2}}) {
    CAPTURE(kind);
    LocalPair pair(OverflowSpec({}), kind);
    for (int rank = 0; rank < pair.grid.world(); ++rank) FillOverflow(&pair.grid[rank]);
    RequireStep(&pair.grid);
    const std::vector<Tensors> before = ParamsOf(&pair.grid);
    for (int i = 0; i < 2; ++i) {
      pair.grid.Step();
      CheckFailed(&pair.grid, SHAMPOO_E_NUMERIC, {"\"large\" is too large: factor.0 would overflow f16"});
      CHECK(Has(pair.grid[0].error, "Other ranks could not detect this") == (kind.replicas > 1));
      CHECK(SameBits(ParamsOf(&pair.grid), before));
      for (int rank = 0; rank < pair.grid.world(); ++rank) CHECK(pair.grid[rank].Stat("steps") == 1);
    }
    // The next step has a gradient with which no state overflows.
    for (int rank = 0; rank < pair.grid.world(); ++rank) pair.grid[rank].g[0].assign(pair.grid[rank].g[0].size(), 1.0F);
    RequireStep(&pair.grid);
    for (int rank = kind.shards; rank < pair.grid.world(); ++rank) {
      CHECK(SameBits(pair.grid[rank].w, pair.grid[rank % kind.shards].w));
    }
  }
}

TEST_CASE(
    "a state that would overflow makes all ranks skip its block, although only the owner of the block detects this") {
  for (const Keys& keys : Combinations("on_nonfinite=skip_block|skip_step communicate=updates|params")) {
    for (const Kind kind : {Kind{2, 1}, Kind{4, 1}}) {
      CAPTURE_ALL(keys, kind);
      LocalPair pair(OverflowSpec(keys), kind);
      Tensors before;
      for (int step = 1; step <= 3; ++step) {
        before = pair.grid[0].w;
        for (int rank = 0; rank < pair.grid.world(); ++rank) FillOverflow(&pair.grid[rank]);
        FillOverflow(pair.alone[0].get());
        pair.StepBoth();
      }
      CHECK(pair.grid.AllHold(pair.grid[0].w));
      CHECK(pair.grid[0].w[0] == before[0]);
      CHECK(pair.grid[0].w[1] != before[1]);
      for (int rank = 0; rank < pair.grid.world(); ++rank) CHECK(pair.grid[rank].Stat("nonfinite_blocks") == 2);
      // With skip_step, a job of one rank skips the whole step. A job of several ranks skips only the block, because
      // only the owner of the block detects the overflow.
      if (keys.Value("on_nonfinite") == "skip_block") pair.CheckSame();
    }
  }
}

TEST_CASE("an update that does not fit the communication dtype is skipped and reported on all ranks") {
  for (const Keys& keys :
       Combinations("communication_dtype=f16 on_nonfinite=error|skip_block communicate=updates|params")) {
    for (const int world : {2, 4}) {
      CAPTURE_ALL(keys, world);
      RankSpec spec = NonfiniteSpec(keys);
      spec.groups[0].emplace_back("lr", "1e6");
      LocalPair pair(spec, {world, 1});
      pair.FillGradients(5);
      const Tensors before = pair.grid[0].w;
      RequireStep(&pair.grid);
      CHECK(pair.grid.AllHold(pair.grid[0].w));
      CHECK(pair.grid[0].w[1] == before[1]);
      CHECK(pair.grid[0].w[0] != before[0]);
      for (int rank = 0; rank < world; ++rank) CHECK(pair.grid[rank].Stat("nonfinite_blocks") == 4);
      if (keys.Value("on_nonfinite") == "skip_block") {
        RequireStep(&pair.grid);
      } else {
        CheckStepFails(&pair.grid, SHAMPOO_E_NUMERIC, {"the direction of block vector/0 was not finite"});
      }
    }
  }
}

// Every block has one element. The exponent of inverse roots is -exponent_multiplier / 2 = -5, and epsilon is 1e-12, so
// the inverse root of a zero factor matrix is (0 + 1e-12)^-5. This number is too large for float32, the dtype of the
// root, so all rungs of the recovery ladder fail.
RankSpec FailingRoots(const Keys& more) {
  return {.keys = "exponent_multiplier=10 root_failure_tolerance=2 max_preconditioner_dim=1" + more,
          .params = {{"first", {5}}, {"second", {1}}, {"third", {1}}, {"fourth", {5}}}};
}

RankSpec CaseSpec(const OverflowCase& one, const Keys& more = {}) {
  return {.keys = "lr=1 max_preconditioner_dim=4" + more + one.keys, .params = {{"bad", {8, 4}}, {"sound", {8, 4}}}};
}

// Sets parameter "bad" and its momentum to the values of the case.
void SetValues(const OverflowCase& one, Rank* rank) {
  std::fill(rank->w[0].begin(), rank->w[0].end(), static_cast<float>(one.param));
  if (one.has_momentum) FillStates(*rank, "bad/", "/momentum", static_cast<float>(one.momentum));
}

TEST_CASE("a block whose new parameter or momentum would not be finite is unchanged and reported on all ranks") {
  for (const OverflowCase& one : OverflowCases(FLT_MAX)) {
    for (const char* const communicate : {"updates", "params"}) {
      for (const Kind kind : kLocalKinds) {
        CAPTURE_ALL(one.what, communicate, kind);
        LocalPair pair(CaseSpec(one, {{"communicate", communicate}}), kind);
        for (int rank = 0; rank < pair.grid.world(); ++rank) SetValues(one, &pair.grid[rank]);
        for (const auto& rank : pair.alone) SetValues(one, rank.get());
        pair.FillGradients(5);
        const std::vector<Tensors> before = ParamsOf(&pair.grid);
        pair.StepBoth();
        pair.CheckSame();
        for (int rank = 0; rank < pair.grid.world(); ++rank) {
          const Tensors& was = before[static_cast<size_t>(rank)];
          CHECK(SameBits({pair.grid[rank].w[0]}, {was[0]}));
          CHECK_FALSE(SameBits({pair.grid[rank].w[1]}, {was[1]}));
          CHECK(pair.grid[rank].Stat("nonfinite_blocks") == pair.alone[0]->Stat("nonfinite_blocks"));
          CHECK(pair.grid[rank].Stat("nonfinite_blocks") > 0);
        }
        CheckStepFails(&pair.grid, SHAMPOO_E_NUMERIC, {"the direction of block bad/0 was not finite"});
      }
    }
  }
}

// A step that skips a block defers the error to the next call. If one rank returned another failure in that call, it
// would return the deferred error in the call after it, in which the other ranks already make a step.
TEST_CASE("all ranks return a deferred error in the same call, even if one rank has another failure") {
  const OverflowCase one = OverflowCases(FLT_MAX).front();
  for (const Kind kind : kLocalKinds) {
    CAPTURE(kind);
    LocalPair pair(CaseSpec(one), kind);
    for (int rank = 0; rank < pair.grid.world(); ++rank) SetValues(one, &pair.grid[rank]);
    pair.FillGradients(5);
    RequireStep(&pair.grid);
    pair.grid[0].stream = &pair;
    CheckStepFails(&pair.grid, SHAMPOO_E_NUMERIC, {"the direction of block bad/0 was not finite"});
    pair.grid.Step();
    CheckFailed(&pair.grid, SHAMPOO_E_INVALID, {"stream is not NULL"});
  }
}

TEST_CASE("an update that overflows the parameter only because of rounding to communication_dtype is skipped") {
  // bfloat16 rounds 0x1.018p+120 up to 0x1.02p+120, and represents 0x1.000p+120 exactly.
  for (const double update : {0x1.018p+120, 0x1.000p+120}) {
    CAPTURE(update);
    LocalPair pair({.keys = "communication_dtype=bf16 grafting=sgd start_preconditioning_step=100 beta1=0 lr=" +
                            std::to_string(update),
                    .params = {{"w", {4}}}},
                   {2, 1});
    const float start = FLT_MAX - 0x1.018p+120F;
    for (int rank = 0; rank < 2; ++rank) {
      pair.grid[rank].w[0] = {start, 0, 0, 0};
      pair.grid[rank].g[0] = {-1, -1, -1, -1};
    }
    RequireStep(&pair.grid);
    const bool moves = update == 0x1p+120;
    for (int rank = 0; rank < 2; ++rank) {
      CHECK(pair.grid[rank].w[0][0] == (moves ? start + 0x1p+120F : start));
      CHECK(pair.grid[rank].w[0][1] == (moves ? 0x1p+120F : 0));
      CHECK(pair.grid[rank].Stat("nonfinite_blocks") == (moves ? 0 : 1));
    }
  }
}

TEST_CASE("roots that fail too often on the owner of their block are reported by all ranks in the same step") {
  for (const Kind kind : kLocalKinds) {
    for (const Keys& bucket : Combinations("comm_bucket_bytes=0|200")) {
      CAPTURE_ALL(kind, bucket);
      LocalPair pair(FailingRoots(bucket), kind);
      for (int rank = 0; rank < pair.grid.world(); ++rank) {
        for (std::vector<float>& g : pair.grid[rank].g) std::fill(g.begin(), g.end(), 1.0F);
        std::fill(pair.grid[rank].g[1].begin(), pair.grid[rank].g[1].end(), 0.0F);
      }
      for (int refresh = 1; refresh <= 5; ++refresh) {
        RequireStep(&pair.grid);
        if (refresh < 3) continue;
        CheckStepFails(&pair.grid, SHAMPOO_E_NUMERIC,
                       {"the inverse root of second/0/factor.0 could not be computed at " + std::to_string(refresh) +
                        " refreshes in a row"});
      }
    }
  }
}

TEST_CASE("roots of several owners make exactly one step fail if they fail at the same refresh") {
  for (const int world : {2, 4}) {
    CAPTURE(world);
    LocalPair pair(FailingRoots({}), {world, 1});
    for (int rank = 0; rank < world; ++rank) {
      for (std::vector<float>& g : pair.grid[rank].g) std::fill(g.begin(), g.end(), 1.0F);
      pair.grid[rank].g[1][0] = pair.grid[rank].g[2][0] = 0;
    }
    const std::vector<shampoo_block_info> blocks = BlocksOf(pair.grid[0]);
    REQUIRE(blocks.size() > 6);
    REQUIRE(blocks[5].owner != blocks[6].owner);  // the blocks of "second" and "third", whose roots fail
    for (int refresh = 1; refresh <= 5; ++refresh) {
      RequireStep(&pair.grid);
      if (refresh >= 3)
        CheckStepFails(&pair.grid, SHAMPOO_E_NUMERIC, {std::to_string(refresh) + " refreshes in a row"});
    }
  }
}

}  // namespace
}  // namespace shampoo_test

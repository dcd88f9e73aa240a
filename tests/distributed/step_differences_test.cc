// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests steps in which the inputs of one rank differ from those of the other ranks. Every rank must return the same
// error and leave its parameters unchanged.
#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "tests/capture.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

RankSpec TwoGroupsSpec(const Keys& more = {}) {
  return {.keys = "max_preconditioner_dim=4 grafting=adam momentum=0.5" + more,
          .groups = {"lr=0.1 max_preconditioner_dim=3"},
          .params = {{"matrix", {9, 7}}, {"vector", {12}, 1}, {"tensor", {3, 4, 2}}}};
}

// Makes two steps, and sets the gradients of the third step to pseudo-random numbers.
void StartThirdStep(Grid* grid) {
  RequireStart(grid);
  RunSteps(grid, 101, 102);
  grid->FillGradients(103);
}

// Checks that the third step fails on all ranks with the same error and changes no parameter. The error must name rank
// `odd`, the rank with different inputs.
void CheckFails(Grid* grid, shampoo_status status, int odd, const std::vector<std::string>& words) {
  const std::vector<Tensors> before = ParamsOf(grid);
  const auto everything = Everything(grid);
  grid->Step();
  CheckFailed(grid, status, words);
  CHECK_MESSAGE(Has((*grid)[0].error, "rank " + std::to_string(odd)), (*grid)[0].error);
  CHECK(SameBits(ParamsOf(grid), before));
  for (int rank = 0; rank < grid->world(); ++rank) CHECK((*grid)[rank].Stat("steps") == 2);
  // Shard ranks compare their inputs before the step writes anything, so states are unchanged, too.
  if (grid->shards() > 1) CHECK(Everything(grid) == everything);
}

// Checks that steps succeed after the difference between ranks is corrected, and that replicas have equal parameters.
void CheckContinues(Grid* grid) {
  for (int step = 0; step < 2; ++step) grid->Step();
  CHECK_MESSAGE(grid->All(SHAMPOO_OK), grid->Errors());
  if (grid->replicas() > 1) CHECK(grid->AllHold((*grid)[0].w));
}

template <typename Test>
void ForEveryRank(Test&& test) {
  for (const Kind kind : kReplicasOrShards) {
    for (const Keys& bucket : Combinations("comm_bucket_bytes=0|600")) {
      for (int odd = 0; odd < kind.world(); ++odd) {
        CAPTURE_ALL(kind, bucket, odd);
        Grid grid(TwoGroupsSpec(bucket), kind);
        StartThirdStep(&grid);
        test(&grid, odd);
      }
    }
  }
}

TEST_CASE("a gradient that is missing on one rank is an error on all ranks") {
  ForEveryRank([](Grid* grid, int odd) {
    (*grid)[odd].has_grad[2] = false;
    CheckFails(grid, SHAMPOO_E_INVALID, odd, {"gradient", "\"tensor\""});
    (*grid)[odd].has_grad[2] = true;
    CheckContinues(grid);
  });
}

TEST_CASE("a gradient that only one rank has is an error on all ranks") {
  ForEveryRank([](Grid* grid, int odd) {
    for (int rank = 0; rank < grid->world(); ++rank) (*grid)[rank].has_grad[1] = rank == odd;
    CheckFails(grid, SHAMPOO_E_INVALID, odd, {"gradient", "\"vector\""});
    (*grid)[odd].has_grad[1] = false;
    CheckContinues(grid);
  });
}

TEST_CASE("a step counter that differs on one rank is an error on all ranks") {
  for (const int group : {0, 1}) {
    for (const int64_t steps : {0, 1, 3}) {
      CAPTURE_ALL(group, steps);
      ForEveryRank([&](Grid* grid, int odd) {
        SetSteps((*grid)[odd], group, steps);
        CheckFails(grid, SHAMPOO_E_STATE, odd, {"step", "Load the state of the same step on all ranks"});
        SetSteps((*grid)[odd], group, 2);
        CheckContinues(grid);
      });
    }
  }
}

TEST_CASE("a value of lr or gradient_scale or beta2 that differs on one rank is an error on all ranks") {
  for (const char* const key : {"lr", "gradient_scale", "beta2"}) {
    CAPTURE(key);
    ForEveryRank([&](Grid* grid, int odd) {
      double value = 0;
      REQUIRE(shampoo_optimizer_get((*grid)[odd].optimizer, 1, key, &value) == SHAMPOO_OK);
      REQUIRE(shampoo_optimizer_set((*grid)[odd].optimizer, 1, key, value / 2) == SHAMPOO_OK);
      // The message names rank 0 and a rank that differs from rank 0. One of the two is `odd`, even if `odd` is 0.
      CheckFails(grid, SHAMPOO_E_INVALID, odd, {"learning rate", "on all ranks"});
      REQUIRE(shampoo_optimizer_set((*grid)[odd].optimizer, 1, key, value) == SHAMPOO_OK);
      CheckContinues(grid);
    });
  }
}

TEST_CASE("a gradient with NaN on one rank is an error on all ranks") {
  ForEveryRank([](Grid* grid, int odd) {
    const float kept = std::exchange((*grid)[odd].g[0][5], NAN);
    CheckFails(grid, SHAMPOO_E_NUMERIC, odd, {"NaN", "\"matrix\"", "element 5"});
    (*grid)[odd].g[0][5] = kept;
    CheckContinues(grid);
  });
}

TEST_CASE("a gradient with NaN on one rank is an error on all ranks even if on_nonfinite is skip_block or skip_step") {
  for (const char* const choice : {"skip_block", "skip_step"}) {
    for (const Kind kind : {Kind{2, 1}, Kind{4, 1}}) {
      for (int odd = 0; odd < kind.replicas; ++odd) {
        CAPTURE_ALL(choice, kind, odd);
        Grid grid(TwoGroupsSpec({{"on_nonfinite", choice}}), kind.replicas, 1);
        StartThirdStep(&grid);
        const float kept = std::exchange(grid[odd].g[0][5], NAN);
        CheckFails(&grid, SHAMPOO_E_NUMERIC, odd, {"not finite", "\"matrix\"", "same on all ranks"});
        grid[odd].g[0][5] = kept;
        CheckContinues(&grid);
      }
    }
  }
}

TEST_CASE("if one rank has no bound buffers, the step fails on all ranks") {
  for (const Kind kind : kReplicasOrShards) {
    CAPTURE(kind);
    Grid grid(TwoGroupsSpec(), kind);
    RequireCreate(&grid);
    shampoo_status unbound = SHAMPOO_OK;
    OnEveryRank(grid.world(), [&](int rank) {
      if (rank != 1) return grid[rank].Step();
      unbound = shampoo_optimizer_step(grid[rank].optimizer, nullptr);
    });
    CHECK(unbound == SHAMPOO_E_STATE);
    CHECK(grid[0].status == SHAMPOO_E_STATE);
    CHECK_MESSAGE(Has(grid[0].error, "rank 1: parameter \"matrix\" (index 0) has no buffers"), grid[0].error);
  }
}

}  // namespace
}  // namespace shampoo_test

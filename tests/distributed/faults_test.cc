// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of communicators that fail. Calls must return SHAMPOO_E_COMM on every rank, and no rank may wait forever.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>

#include "tests/capture.h"
#include "tests/distributed/models.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

constexpr Kind kFailingKinds[] = {
    {2, 1}, {4, 1}, {1, 2}, {1, 4}, {1, 2, "gather"}, {1, 4, "gather"}, {1, 3, "gather", false}};
constexpr std::chrono::seconds kPatience(5);

int64_t Calls(Grid* grid) {
  int64_t calls = 0;
  for (int rank = 0; rank < grid->world(); ++rank) calls += grid->comm().calls(rank);
  return calls;
}

// Checks that further steps fail on all ranks without an exchange. Then destroys the optimizers. All ranks must have
// failed before this call.
void CheckOver(Grid* grid) {
  const int64_t calls = Calls(grid);
  for (int i = 0; i < 2; ++i) {
    grid->Step();
    CHECK_MESSAGE(grid->All(SHAMPOO_E_COMM), grid->Errors());
  }
  CHECK(Calls(grid) == calls);
  CHECK(grid->timeouts() == 0);
  grid->Destroy();
  CHECK(grid->comm().released() == grid->world());
}

TEST_CASE("if any collective fails on all ranks, this step and all later steps fail on all ranks") {
  for (const Kind kind : kFailingKinds) {
    for (const Keys& bucket : Combinations("comm_bucket_bytes=0|600")) {
      for (const bool dead : {false, true}) {  // true: all later collectives fail, too
        for (int64_t k = 1; k <= 20; ++k) {
          CAPTURE_ALL(kind, bucket, dead, k);
          Grid grid(MatrixAndVectorSpec(bucket), kind);
          grid.comm().before = [&](int, int64_t call) { return call == k || (dead && call > k) ? 7 : 0; };
          CreateAndFill(&grid, kPatience);
          CHECK(grid.All(SHAMPOO_E_COMM) == (k <= kCallsOfCreate));
          if (k > kCallsOfCreate) {
            for (int step = 0; step < 20 && grid.All(SHAMPOO_OK); ++step) grid.Step();
          }
          CHECK(grid.All(SHAMPOO_E_COMM));
          for (int rank = 0; rank < grid.world(); ++rank) {
            CHECK_MESSAGE(Has(grid[rank].error, " of the communicator returned 7"), grid[rank].error);
            CHECK(Has(grid[rank].error, "rank " + std::to_string(rank)));
            // If a step has several exchanges, a rank may report the failure one or two exchanges later.
            CHECK(grid.comm().calls(rank) >= k);
            CHECK(grid.comm().calls(rank) <= k + (bucket == Keys("comm_bucket_bytes=0") && !kind.gathers() ? 0 : 2));
          }
          if (k > kCallsOfCreate) {
            grid.Step();  // ranks may make one more exchange to report the failure
            CHECK_MESSAGE(grid.All(SHAMPOO_E_COMM), grid.Errors());
            CheckOver(&grid);
          }
          grid.Destroy();
          CHECK(grid.comm().released() == grid.world());
        }
      }
    }
  }
}

TEST_CASE("if a collective has exchanged its data and then fails on one rank, the next step fails on the other ranks") {
  for (const Kind kind : kFailingKinds) {
    const int world = kind.world();
    if (kind.gathers()) continue;  // the other ranks may learn of the failure in the same step
    for (const int faulty : {0, world - 1}) {
      for (int64_t k = kCallsOfCreate + 1; k <= kCallsOfCreate + 3; ++k) {
        CAPTURE_ALL(kind, faulty, k);
        Grid grid(MatrixAndVectorSpec(), kind);
        grid.comm().after = [&](int rank, int64_t call) { return rank == faulty && call == k ? 7 : 0; };
        CreateAndFill(&grid, kPatience);
        RequireOk(grid);
        for (int64_t step = kCallsOfCreate + 1; step <= k; ++step) grid.Step();
        for (int rank = 0; rank < world; ++rank) {
          CHECK_MESSAGE(grid[rank].status == (rank == faulty ? SHAMPOO_E_COMM : SHAMPOO_OK), grid[rank].error);
        }
        CHECK(Has(grid[faulty].error, "returned 7"));
        grid.Step();
        CheckFailed(&grid, SHAMPOO_E_COMM, {"rank " + std::to_string(faulty)});
        CheckOver(&grid);
      }
    }
  }
}

TEST_CASE("if steps have several exchanges, the steps of all ranks fail after a collective has failed on one rank") {
  struct Bad {
    const char* on_nonfinite;
    float value;  // of an element of the gradient
  };
  for (const Kind kind : kFailingKinds) {
    const int world = kind.world();
    for (const char* const bucket : {"0", "600"}) {
      if (kind.replicas == 1 && !kind.gathers()) continue;  // steps have only one exchange
      for (const int faulty : {0, world - 1}) {
        // A gradient of 2e18 overflows no state, but is so large that the step makes the exact check of its block.
        for (const Bad bad : {Bad{"skip_step", 0}, {"skip_step", NAN}, {"skip_step", 2e18F}, {"error", NAN}}) {
          // If there are no shards, the test omits on_nonfinite=error. A collective could fail on one rank while
          // another rank reports the NaN of its gradient in this collective. The two ranks would then wait in
          // different exchanges (docs/many_ranks.md).
          if (bad.on_nonfinite == std::string("error") && !kind.gathers()) continue;
          for (int64_t k = kCallsOfCreate + 1; k <= kCallsOfCreate + 12; ++k) {
            CAPTURE_ALL(kind, bucket, faulty, bad.on_nonfinite, bad.value, k);
            Grid grid(MatrixAndVectorSpec({{"comm_bucket_bytes", bucket}, {"on_nonfinite", bad.on_nonfinite}}), kind);
            grid.comm().after = [&](int rank, int64_t call) { return rank == faulty && call == k ? 7 : 0; };
            CreateAndFill(&grid, kPatience);
            RequireOk(grid);
            for (int rank = 0; rank < (kind.replicas == 1 ? 1 : world); ++rank) grid[rank].g[0][1] = bad.value;
            OnEveryRank(world, [&](int rank) {
              for (int t = 0; t < 14 && grid[rank].status != SHAMPOO_E_COMM; ++t) grid[rank].Step();
              if (rank == faulty) grid[rank].Step();
            });
            CHECK_MESSAGE(grid.All(SHAMPOO_E_COMM), grid.Errors());
            for (int rank = 0; rank < world; ++rank) {
              CHECK_MESSAGE(Has(grid[rank].error, "rank " + std::to_string(faulty)), grid[rank].error);
            }
            // A collective of ThreadComm returns 1001 after a timeout, 1002 if sizes differ, and 1003 after an abort.
            CHECK_FALSE_MESSAGE(Has(grid.Errors(), "returned 100"), grid.Errors());
            CheckOver(&grid);
          }
        }
      }
    }
  }
}

TEST_CASE("the callback abort ends the wait of the other ranks if a collective fails on one rank") {
  for (const Kind kind : kFailingKinds) {
    const int world = kind.world();
    for (const int faulty : {0, world - 1}) {
      for (const bool takes_part : {false, true}) {  // whether the collective exchanges its data before it fails
        for (int64_t k = 1; k <= kCallsOfCreate + 3; ++k) {
          CAPTURE_ALL(kind, faulty, takes_part, k);
          Grid grid(MatrixAndVectorSpec(), kind, true);
          (takes_part ? grid.comm().after : grid.comm().before) = [&](int rank, int64_t call) {
            return rank == faulty && call == k ? 7 : 0;
          };
          CreateAndFill(&grid, kPatience);
          CHECK(grid.All(SHAMPOO_OK) == (k > kCallsOfCreate));
          OnEveryRank(world, [&](int rank) {
            for (int t = 0; t < 10 && grid[rank].status == SHAMPOO_OK; ++t) grid[rank].Step();
          });
          CHECK_MESSAGE(grid.All(SHAMPOO_E_COMM), grid.Errors());
          CHECK(Has(grid[faulty].error, "returned 7"));
          CHECK(grid.timeouts() == 0);
          if (k > kCallsOfCreate) CheckOver(&grid);
          grid.Destroy();
          CHECK(grid.comm().released() == world);
        }
      }
    }
  }
}

TEST_CASE("if async_error reports a failure on any rank, create or a step fails on all ranks") {
  for (const Kind kind : kFailingKinds) {
    for (const bool all : {true, false}) {
      for (int64_t k = 1; k <= kCallsOfCreate + 2; ++k) {
        CAPTURE_ALL(kind, all, k);
        Grid grid(MatrixAndVectorSpec(), kind, !all);
        grid.comm().async = [&](int rank, int64_t call) { return (all || rank == 1) && call == k ? 5 : 0; };
        CreateAndFill(&grid, kPatience);
        CHECK(grid.All(SHAMPOO_OK) == (k > kCallsOfCreate));
        for (int step = 0; step < 10 && grid.All(SHAMPOO_OK); ++step) grid.Step();
        CHECK_MESSAGE(grid.All(SHAMPOO_E_COMM), grid.Errors());
        for (int rank = 0; rank < grid.world(); ++rank) {
          if (all || rank == 1) CHECK_MESSAGE(Has(grid[rank].error, "async_error"), grid[rank].error);
        }
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests that a rank that has no memory for its error message still joins the exchanges of a failed step or export.
#include <cmath>
#include <set>

#include "tests/capture.h"
#include "tests/checkpoint/faults/allocations.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// Makes a call that fails on all ranks even if there is enough memory. Repeats the call for n = 1, 2, ... In each call,
// either allocation n of rank 1 fails, or allocation n and all later allocations of rank 1 fail. n increases until no
// allocation fails. Checks that each rank returns one of `allowed`, and that rank 0 returns `status` at least once and
// never SHAMPOO_E_COMM. `prepare` runs after one successful step and before the call. `call` receives a rank and its
// number, makes the call on this rank, and returns the status.
template <typename Prepare, typename Call>
void CheckWithoutMemory(const Kind& kind, const std::set<shampoo_status>& allowed, shampoo_status status,
                        Prepare&& prepare, Call&& call) {
  for (const int64_t failing : {int64_t{1}, int64_t{1} << 40}) {  // the number of allocations that fail
    std::set<shampoo_status> returned;
    bool has_failed = true;
    int64_t n = 1;
    for (; has_failed; ++n) {
      CAPTURE_ALL(kind, failing, n);
      REQUIRE(n < 200);
      Grid grid({.keys = "max_preconditioner_dim=8 grafting=adam precondition_frequency=2 weight_ema=0.5",
                 .params = {{"matrix", {20, 13}}, {"vector", {17}}, {"tensor", {3, 5, 4}}}},
                kind, true);
      RequireStart(&grid);
      RunSteps(&grid, 2, 2);
      prepare(&grid);
      OnEveryRank(grid.world(), [&](int rank) {
        {
          const AllocationWatch watch({.first = rank == 1 ? n : INT64_MAX, .count = failing});
          grid[rank].status = call(&grid[rank], rank);
          if (rank == 1) has_failed = watch.has_failed();
        }
        grid[rank].error = shampoo_last_error();
      });
      CHECK(grid.timeouts() == 0);
      CAPTURE(grid.Errors());
      for (int rank = 0; rank < grid.world(); ++rank) CHECK(allowed.contains(grid[rank].status));
      returned.insert(grid[0].status);
    }
    CHECK(n > 2);
    CHECK(returned.contains(status));
    CHECK_FALSE(returned.contains(SHAMPOO_E_COMM));
  }
}

TEST_CASE("a failed step returns an error on all ranks, even if a rank has no memory for the error message") {
  for (const Kind kind : {Kind{2, 1}, Kind{3, 1}, Kind{1, 3}, Kind{2, 2}, Kind{1, 3, "gather"}, Kind{2, 2, "gather"}}) {
    const auto set_nan = [](Grid* grid) {
      for (std::vector<float>& gradient : (*grid)[1].g) {
        if (!gradient.empty()) gradient[0] = NAN;
      }
    };
    CheckWithoutMemory(kind, {SHAMPOO_E_NUMERIC, SHAMPOO_E_NOMEM, SHAMPOO_E_COMM}, SHAMPOO_E_NUMERIC, set_nan,
                       [](Rank* rank, int) { return shampoo_optimizer_step(rank->optimizer, nullptr); });
  }
}

TEST_CASE("a failed export returns an error on all ranks, even if a rank has no memory for the error message") {
  for (const Kind kind : {Kind{2, 1}, Kind{1, 3, "gather"}, Kind{2, 2}, Kind{2, 2, "gather"}}) {
    CheckWithoutMemory(
        kind, {SHAMPOO_E_INVALID, SHAMPOO_E_NOMEM}, SHAMPOO_E_INVALID, [](Grid*) {},
        [](Rank* rank, int number) {
          Tensors exported;
          if (number != 1) exported = rank->w;
          Tensors& target = number == 1 ? rank->w : exported;  // an export rejects the memory of the parameters
          void* const weights[] = {target[0].data(), target[1].data(), target[2].data()};
          return shampoo_optimizer_export(rank->optimizer, 1, 3, weights);
        });
  }
}

}  // namespace
}  // namespace shampoo_test

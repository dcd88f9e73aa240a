// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A rank without memory for the text of its error still joins the exchanges of a failed step.
#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <string>

#include "tests/checkpoint/faults/allocations.h"
#include "tests/distributed/grid.h"

namespace shampoo_test {
namespace {

RankSpec Spec() {
  RankSpec spec;
  spec.keys = {{"max_preconditioner_dim", "8"}, {"grafting", "adam"}, {"precondition_frequency", "2"}};
  spec.params = {{"matrix", {20, 13}}, {"vector", {17}}, {"tensor", {3, 5, 4}}};
  return spec;
}

// Creates the optimizers, and makes one step.
void Begin(Grid* grid) {
  grid->SetPatience(std::chrono::seconds(20));
  grid->Create();
  REQUIRE(grid->All(SHAMPOO_OK));
  grid->FillParams(1);
  grid->FillGradients(2);
  grid->Step();
  REQUIRE(grid->All(SHAMPOO_OK));
}

// Rank 1 has NaN in its gradients. In addition, its first allocation in the step fails, then its second, and so on.
TEST_CASE(
    "a failed step ends with an error on all ranks, without a timeout, even if a rank has no memory for its error") {
  for (const Kind kind : {Kind{2, 1}, Kind{3, 1}, Kind{1, 3}, Kind{2, 2}, Kind{1, 3, "gather"}, Kind{2, 2, "gather"}}) {
    for (const int64_t failing : {int64_t{1}, int64_t{1} << 40}) {  // only that allocation, or all later ones, too
      std::set<shampoo_status> returned;
      for (int64_t n = 1;; ++n) {
        CAPTURE(kind);
        CAPTURE(failing);
        CAPTURE(n);
        REQUIRE(n < 200);
        Grid grid(Spec(), kind, true);
        Begin(&grid);
        for (auto& gradient : grid[1].g) {
          if (!gradient.empty()) gradient[0] = NAN;
        }
        bool has_failed = false;
        OnEveryRank(grid.world(), [&](int rank) {
          if (rank != 1) {
            grid[rank].Step();
            return;
          }
          const AllocationWatch watch({.first = n, .count = failing});
          const shampoo_status status = shampoo_optimizer_step(grid[rank].optimizer, nullptr);
          has_failed = watch.has_failed();
          grid[rank].status = status;
        });
        CHECK(grid.timeouts() == 0);
        CAPTURE(grid.Errors());
        for (int rank = 0; rank < grid.world(); ++rank) {
          const shampoo_status status = grid[rank].status;
          CHECK((status == SHAMPOO_E_NUMERIC || status == SHAMPOO_E_NOMEM || status == SHAMPOO_E_COMM));
        }
        returned.insert(grid[0].status);
        if (!has_failed) break;
      }
      CHECK(returned.count(SHAMPOO_E_NUMERIC) == 1);
      CHECK(returned.count(SHAMPOO_E_COMM) == 0);
    }
  }
}

// Rank 1 passes a parameter as the memory for its average. In addition, its first allocation in the export fails, then
// its second, and so on.
TEST_CASE("a failed export ends with an error on all ranks, even if a rank has no memory for its error") {
  for (const Kind kind : {Kind{2, 1}, Kind{1, 3, "gather"}, Kind{2, 2}, Kind{2, 2, "gather"}}) {
    for (const int64_t failing : {int64_t{1}, int64_t{1} << 40}) {
      std::set<shampoo_status> returned;
      bool has_failed = true;
      int64_t attempts = 0;
      for (int64_t n = 1; has_failed; ++n) {
        CAPTURE(kind);
        CAPTURE(failing);
        CAPTURE(n);
        REQUIRE(n < 200);
        RankSpec spec = Spec();
        spec.keys.emplace_back("weight_ema", "0.5");
        Grid grid(spec, kind, true);
        Begin(&grid);
        std::vector<Tensors> exported(static_cast<size_t>(grid.world()));
        OnEveryRank(grid.world(), [&](int rank) {
          if (rank != 1) {
            grid[rank].Export(1, &exported[static_cast<size_t>(rank)]);
            return;
          }
          std::vector<void*> weights;
          for (auto& parameter : grid[rank].w) weights.push_back(parameter.data());
          const AllocationWatch watch({.first = n, .count = failing});
          const shampoo_status status =
              shampoo_optimizer_export(grid[rank].optimizer, 1, static_cast<int32_t>(weights.size()), weights.data());
          has_failed = watch.has_failed();
          grid[rank].status = status;
        });
        CHECK(grid.timeouts() == 0);
        CAPTURE(grid.Errors());
        for (int rank = 0; rank < grid.world(); ++rank) {
          const shampoo_status status = grid[rank].status;
          CHECK((status == SHAMPOO_E_INVALID || status == SHAMPOO_E_NOMEM));
        }
        returned.insert(grid[0].status);
        ++attempts;
      }
      CHECK(attempts > 1);
      CHECK(returned.count(SHAMPOO_E_INVALID) == 1);
    }
  }
}

}  // namespace
}  // namespace shampoo_test

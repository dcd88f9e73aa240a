// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// After the devices have rejected a step, the ranks exchange the error. A rank that has no host memory for the text of
// the error still joins this exchange.
#include <cmath>
#include <set>

#include "tests/checkpoint/faults/allocations.h"
#include "tests/cuda/contract/rank_steps.h"
#include "tests/cuda/tools/staged_comm.h"

namespace shampoo_test {
namespace {

// Returns whether an allocation is made by test code. The fake of CUDA and the communicators of the tests use the same
// allocation functions as the library.
bool IsOfTests() { return fake_cuda_in_call() != 0 || StagedComm::IsInside(); }

struct Grid {
  int copies, shards;
};

// Rank 1 has a NaN in its gradient. In the call that reports the error, allocation n of rank 1 fails, or this and all
// later ones. n is 1, 2, and so on, until the call makes fewer than n allocations.
TEST_CASE("a rejected step is reported on all ranks if one has no memory" * NeedsFake()) {
  for (const Grid& grid : {Grid{2, 1}, {3, 1}, {1, 3}, {2, 2}}) {
    for (const int64_t failing : {int64_t{1}, int64_t{1} << 40}) {  // allocation n alone, or all from it on
      std::set<shampoo_status> returned;
      int64_t attempts = 0;
      for (int64_t n = 1;; ++n) {
        CAPTURE(grid.copies);
        CAPTURE(grid.shards);
        CAPTURE(failing);
        CAPTURE(n);
        REQUIRE(n < 200);
        const Stage stage;
        DeviceRanks ranks(SpecOfRanks({}), grid.copies, grid.shards);
        MakeTwoSteps(&ranks);
        const auto before = ranks.Params();
        ranks[1].SpoilGradient(3, 2, NAN);
        ranks.Step();
        REQUIRE(ranks.DifferencesFrom(SHAMPOO_OK) == "");
        bool has_failed = false;
        ranks.OnEvery([&](int rank, Model* model) {
          if (rank != 1) return shampoo_optimizer_status(model->optimizer, 1, nullptr);
          const AllocationWatch watch({.first = n, .count = failing, .is_excluded = IsOfTests});
          const shampoo_status status = shampoo_optimizer_status(model->optimizer, 1, nullptr);
          has_failed = watch.has_failed();
          return status;
        });
        std::string texts;
        for (int rank = 0; rank < ranks.world(); ++rank) {
          texts += std::to_string(ranks.status(rank)) + ": " + ranks.text(rank) + "\n";
        }
        CAPTURE(texts);
        CHECK(ranks.timeouts() == 0);
        CHECK(ranks.Params() == before);
        for (int rank = 0; rank < ranks.world(); ++rank) {
          const shampoo_status status = ranks.status(rank);
          CHECK((status == SHAMPOO_E_NUMERIC || status == SHAMPOO_E_NOMEM || status == SHAMPOO_E_COMM));
        }
        returned.insert(ranks.status(0));
        ++attempts;
        if (!has_failed) break;
        // Unless a rank has left the exchanges, all ranks continue.
        ranks.FillGradients(4);
        ranks.Step();
        for (int rank = 0; rank < ranks.world(); ++rank) {
          CHECK((ranks.status(rank) == SHAMPOO_OK || ranks.status(rank) == SHAMPOO_E_COMM));
          CHECK(ranks.status(rank) == ranks.status(0));
        }
        ranks.Status();
      }
      CHECK(attempts > 2);
      CHECK(returned.count(SHAMPOO_E_NUMERIC) == 1);
    }
  }
}

}  // namespace
}  // namespace shampoo_test

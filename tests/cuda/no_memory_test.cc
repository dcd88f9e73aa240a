// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests that a rank whose allocations of host memory fail still joins the collectives of the other ranks. The
// allocations fail in an export, in a step in which the host finds an error, or in the call that reports a rejected
// step.
#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "tests/checkpoint/faults/allocations.h"
#include "tests/cuda/contract/rank_steps.h"
#include "tests/cuda/tools/staged_comm.h"

namespace shampoo_test {
namespace {

// Returns whether test code makes the current allocation. Such an allocation must not fail. The fake of CUDA and the
// communicators of the tests use the same allocation functions as the library.
bool IsOfTests() { return fake_cuda_in_call() != 0 || StagedComm::IsInside(); }

std::string TextsOf(const DeviceRanks& ranks) {
  std::string texts;
  for (int rank = 0; rank < ranks.world(); ++rank) {
    texts += std::to_string(ranks.status(rank)) + ": " + ranks.text(rank) + "\n";
  }
  return texts;
}

// Checks that the next step succeeds on all ranks, or fails on all ranks because one rank has left the exchanges.
void CheckAllContinue(DeviceRanks* ranks) {
  ranks->Step(4);
  for (int rank = 0; rank < ranks->world(); ++rank) {
    CHECK((ranks->status(rank) == SHAMPOO_OK || ranks->status(rank) == SHAMPOO_E_COMM));
    CHECK(ranks->status(rank) == ranks->status(0));
  }
  ranks->Status();
}

// kBlend: the blend of the export is 2, which is above 1. kOverlap: an output overlaps a parameter.
enum class BadArgument { kNone, kBlend, kOverlap };

// Rank 1 passes valid arguments or a bad argument to an export. In this call, either allocation n of rank 1 fails, or
// allocation n and all later allocations of rank 1 fail. n starts at 1 and increases until no allocation fails.
TEST_CASE("an export returns on all ranks, even if one rank has no memory" * NeedsFake()) {
  for (const RankKind& kind :
       {RankKind{"local", 2, 1}, {"gather", 2, 1}, {"gather", 1, 3}, {"local", 2, 2}, {"gather", 2, 2}}) {
    for (const BadArgument bad : {BadArgument::kNone, BadArgument::kBlend, BadArgument::kOverlap}) {
      for (const int64_t failing : {int64_t{1}, int64_t{1} << 40}) {
        bool has_failed = true;
        for (int64_t n = 1; has_failed; ++n) {
          INFO(NameOf(kind), ", bad argument ", static_cast<int>(bad), ", failing ", failing, " from ", n);
          REQUIRE(n < 200);
          const Stage stage;
          DeviceRanks ranks(SpecOfRanks("weight_ema=0.5"), kind);
          MakeTwoSteps(&ranks);
          ranks.OnEvery([&](int rank, Model* model) {
            std::vector<void*> weights(model->params());
            for (size_t p = 0; p < weights.size(); ++p) weights[p] = model->grad(p);
            const auto count = static_cast<int32_t>(weights.size());
            if (rank != 1) return shampoo_optimizer_export(model->optimizer, 1, count, weights.data());
            if (bad == BadArgument::kOverlap) weights[0] = model->param(0);
            const double blend = bad == BadArgument::kBlend ? 2 : 1;
            const AllocationWatch watch({.first = n, .count = failing, .is_excluded = IsOfTests});
            const shampoo_status status = shampoo_optimizer_export(model->optimizer, blend, count, weights.data());
            has_failed = watch.has_failed();
            return status;
          });
          const std::string texts = TextsOf(ranks);
          CAPTURE(texts);
          CHECK(ranks.timeouts() == 0);
          for (int rank = 0; rank < ranks.world(); ++rank) {
            const shampoo_status status = ranks.status(rank);
            if (!has_failed) CHECK(status == (bad == BadArgument::kNone ? SHAMPOO_OK : SHAMPOO_E_INVALID));
            if (bad != BadArgument::kNone) CHECK(status != SHAMPOO_OK);
          }
          CheckAllContinue(&ranks);
        }
      }
    }
  }
}

// Rank 1 has a NaN in its gradient. In the call that reports the error, either allocation n of rank 1 fails, or
// allocation n and all later allocations of rank 1 fail. n starts at 1 and increases until no allocation fails.
TEST_CASE("a rejected step is reported on all ranks, even if one rank has no memory" * NeedsFake()) {
  for (const RankKind& kind : {RankKind{"local", 2, 1}, {"local", 3, 1}, {"local", 1, 3}, {"local", 2, 2}}) {
    for (const int64_t failing : {int64_t{1}, int64_t{1} << 40}) {
      std::set<shampoo_status> returned;
      int64_t attempts = 0;
      for (int64_t n = 1;; ++n) {
        INFO(NameOf(kind), ", failing ", failing, " from ", n);
        REQUIRE(n < 200);
        const Stage stage;
        DeviceRanks ranks(SpecOfRanks({}), kind);
        MakeTwoSteps(&ranks);
        const auto before = ranks.Params();
        ranks[1].SpoilGradient(3, 2, NAN);
        ranks.CheckStep();
        bool has_failed = false;
        ranks.OnEvery([&](int rank, Model* model) {
          if (rank != 1) return model->Status();
          const AllocationWatch watch({.first = n, .count = failing, .is_excluded = IsOfTests});
          const shampoo_status status = model->Status();
          has_failed = watch.has_failed();
          return status;
        });
        const std::string texts = TextsOf(ranks);
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
        CheckAllContinue(&ranks);
      }
      CHECK(attempts > 2);
      CHECK(returned.count(SHAMPOO_E_NUMERIC) == 1);
    }
  }
}

// An error that the host of one rank finds in a step.
struct HostError {
  const char* what;
  RankKind kind;
  ModelSpec spec;
  int rank;
  shampoo_status status;
  std::function<void(DeviceRanks* ranks)> prepare;  // makes steps and causes the error of the next step
};

std::vector<HostError> HostErrors() {
  std::vector<HostError> errors;
  for (const RankKind& kind : {RankKind{"local", 3, 1}, {"local", 1, 3}, {"local", 2, 2}}) {
    errors.push_back({"an invalid step counter", kind, SpecOfRanks({}), 1, SHAMPOO_E_STATE, [](DeviceRanks* ranks) {
                        MakeTwoSteps(ranks);
                        (*ranks)[1].SetState("group.0/step", {-5});
                      }});
  }
  ModelSpec spec = SpecOfRanks({});
  spec.groups = {{{"lr", "1e7"}}};
  spec.params = {{{6}}, {{1}, SHAMPOO_F16, SHAMPOO_F32, SHAMPOO_F16}};  // only shard rank 0 holds an element of p1
  spec.params[1].group = 1;
  errors.push_back({"a skipped update", {"local", 1, 3}, spec, 0, SHAMPOO_E_NUMERIC, [](DeviceRanks* ranks) {
                      ranks->Train(1, 1);
                    }});
  return errors;
}

TEST_CASE("a rank without memory for its error message joins the step and returns the same status as the other ranks" *
          NeedsFake()) {
  for (const HostError& error : HostErrors()) {
    for (const int64_t failing : {int64_t{1}, int64_t{1} << 40}) {
      bool has_failed = true;
      int64_t n = 0;
      while (has_failed) {
        ++n;
        INFO(std::string(error.what), ", ", NameOf(error.kind), ", failing ", failing, " from ", n);
        REQUIRE(n < 200);
        const Stage stage;
        DeviceRanks ranks(error.spec, error.kind);
        error.prepare(&ranks);
        ranks.OnEvery([&](int rank, Model* model) {
          model->Bind();
          if (rank != error.rank) return shampoo_optimizer_step(model->optimizer, model->stream);
          const AllocationWatch watch({.first = n, .count = failing, .is_excluded = IsOfTests});
          const shampoo_status status = shampoo_optimizer_step(model->optimizer, model->stream);
          has_failed = watch.has_failed();
          return status;
        });
        CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
        ranks.Status();
        const shampoo_status status = ranks.status(0);
        CHECK((status == error.status || (has_failed && status == SHAMPOO_E_NOMEM)));
        for (int rank = 0; rank < ranks.world(); ++rank) {
          CAPTURE(ranks.text(rank));
          CHECK(ranks.status(rank) == status);
        }
        CHECK(ranks.timeouts() == 0);
      }
      CHECK(n > 2);
    }
  }
}

}  // namespace
}  // namespace shampoo_test

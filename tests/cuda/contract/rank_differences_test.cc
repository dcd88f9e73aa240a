// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests steps for which the ranks differ in two inputs. The error reports only one of these differences. Optimizers on
// CPUs report the same one.
#include "tests/cuda/contract/rank_steps.h"

namespace shampoo_test {
namespace {

constexpr int kReplicas = 3;

TEST_CASE("the error of a step reports a different learning rate or step number rather than a missing gradient") {
  struct Difference {
    const char* what;
    shampoo_status status;
    std::vector<std::string> words;
    std::function<void(Model&rank)> make, mend;
  };
  const Difference differences[] = {{"learning rate",
                                     SHAMPOO_E_INVALID,
                                     {"rank 2 has a different learning rate"},
                                     [](Model& rank) { Must(shampoo_optimizer_set(rank.optimizer, 0, "lr", 0.5)); },
                                     [](Model& rank) { Must(shampoo_optimizer_set(rank.optimizer, 0, "lr", 0.25)); }},
                                    {"step",
                                     SHAMPOO_E_STATE,
                                     {"rank 2 is at step 7 and rank 0 at step 2"},
                                     [](Model& rank) { rank.SetState("group.0/step", {7}); },
                                     [](Model& rank) { rank.SetState("group.0/step", {2}); }}};
  for (const Difference& difference : differences) {
    for (const Keys& reporting : kReporting) {
      INFO(std::string(difference.what), ", ", reporting);
      const Stage stage;
      DeviceRanks ranks(SpecOfRanks(reporting), kReplicas);
      MakeTwoSteps(&ranks);
      ranks[1].DropGradient(2, true);
      difference.make(ranks[2]);
      CheckAllReject(&ranks, reporting, difference.status, difference.words);
      difference.mend(ranks[2]);
      CheckAllReject(&ranks, reporting, SHAMPOO_E_INVALID,
                     {"rank 1 has no gradient for parameter \"p2\" and rank 0 has a gradient"});
      ranks[1].DropGradient(2, false);
      CheckTheyContinue(&ranks);
    }
  }
}

TEST_CASE("the error of a step reports a different learning rate in device memory rather than a missing gradient") {
  for (const Keys& reporting : kReporting) {
    CAPTURE(reporting[0].second);
    const Stage stage;
    DeviceRanks ranks(SpecOfRanks(reporting), 1, 3);
    BoundRates rates(&ranks);
    MakeTwoSteps(&ranks);
    ranks[1].DropGradient(2, true);
    rates.Set(2, 0.5F);
    CheckAllReject(&ranks, reporting, SHAMPOO_E_INVALID, {"shard rank 2 has a different learning rate"});
    rates.Set(2, 0.25F);
    CheckAllReject(&ranks, reporting, SHAMPOO_E_INVALID,
                   {" has a gradient for parameter \"p2\" and shard rank 1 has none"});
    ranks[1].DropGradient(2, false);
    CheckTheyContinue(&ranks);
  }
}

}  // namespace
}  // namespace shampoo_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// What the log tells of first inverse roots that rest on few gradients.
#include "tests/capi/behaviour/host.h"
#include "tests/capi/behaviour/listener.h"

namespace shampoo_test {
namespace {

std::vector<std::string> Told(const Keys& keys, int steps) {
  Host host(Keys{{"use_merge_dims", "false"}} + keys, {Param("w", {16, 4}), Param("b", {9})});
  Listener listener(2);
  std::mt19937_64 random(1);
  host.Fill(random);
  for (int t = 0; t < steps; ++t) {
    host.FillGradients(random);
    host.Step();
  }
  return listener.Take();
}

TEST_CASE("factor matrices that cannot be of full rank are told once, with the one that lacks most") {
  // Four columns a step: 8 of 16 after two, where b has 2 of 9.
  const Keys second = {{"precondition_frequency", "2"}};
  const std::vector<std::string> messages = Told(second, 6);
  REQUIRE(messages.size() == 1);
  CHECK_MESSAGE(Has(messages[0], {"2 ", "2 of 3 factor matrices", "w/0/factor.0 of order 16 and rank 8 at most",
                                  "after 2 steps", "epsilon, 1e-12", "start_preconditioning_step"}),
                messages[0]);
  const std::vector<std::string> third = Told({{"precondition_frequency", "3"}, {"epsilon", "0.5"}}, 3);
  REQUIRE(third.size() == 1);
  CHECK_MESSAGE(Has(third[0], {"2 of 3", "b/0/factor.0 of order 9 and rank 3 at most", "epsilon, 0.5"}), third[0]);
}

TEST_CASE("where the gradients suffice, or no such direction is used, nothing is told") {
  CHECK(Told({{"precondition_frequency", "9"}}, 9).empty());
  CHECK(Told({{"precondition_frequency", "2"}}, 1).empty());  // no roots yet
  CHECK(Told({{"precondition_frequency", "8"}}, 8).size() == 1);
  CHECK(Told({{"root_rank_handling", "pseudo_inverse"}, {"epsilon", "0"}}, 1).empty());
}

}  // namespace
}  // namespace shampoo_test

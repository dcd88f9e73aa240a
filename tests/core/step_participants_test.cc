// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "core/step/participants.h"
#include "tests/core/step_fixture.h"

namespace shampoo {
namespace {

std::vector<bool> Chosen(const Participants& participants, const PlanData& plan) {
  std::vector<bool> chosen;
  for (const Param& param : plan.params) chosen.push_back(participants.Contains(param));
  return chosen;
}

// An optimizer with four parameters. The first and the last parameter have gradients. The second parameter has no
// gradient, and the third parameter has no elements.
struct FourParams : StepFixture {
  FourParams() : StepFixture({}, {{2, 2}, {2, 2}, {0, 2}, {3}}), participants(plan()) {
    Bind(1, nullptr);
    const float any = 0;
    Bind(2, &any);
  }

  Participants participants;
};

TEST_CASE("no parameter takes part in a step before the parameters of the step are chosen") {
  const FourParams four;
  CHECK(Chosen(four.participants, four.plan()) == std::vector<bool>(4, false));
}

TEST_CASE("a parameter takes part in a step if this rank has elements and a gradient of the parameter") {
  FourParams four;
  four.participants.ChooseOwnGradients(four.inputs().buffers);
  CHECK(Chosen(four.participants, four.plan()) == std::vector<bool>{true, false, false, true});
}

TEST_CASE("each choice of the parameters of a step replaces the previous choice") {
  FourParams four;
  four.participants.ChooseAll();
  CHECK(Chosen(four.participants, four.plan()) == std::vector<bool>(4, true));
  four.participants.ChooseOwnGradients(four.inputs().buffers);
  four.Bind(0, nullptr);
  four.Bind(1, four.gradients[1].data());
  CHECK(Chosen(four.participants, four.plan()) == std::vector<bool>{true, false, false, true});
  four.participants.ChooseOwnGradients(four.inputs().buffers);
  CHECK(Chosen(four.participants, four.plan()) == std::vector<bool>{false, true, false, true});
}

TEST_CASE("flags() has one flag for each parameter, in the order of the parameters, and a caller can set the flags") {
  FourParams four;
  REQUIRE(four.participants.flags().size() == 4);
  four.participants.flags()[2] = 1;
  CHECK(Chosen(four.participants, four.plan()) == std::vector<bool>{false, false, true, false});
  const Participants& read = four.participants;
  CHECK(std::vector<char>(read.flags().begin(), read.flags().end()) == std::vector<char>{0, 0, 1, 0});
}

}  // namespace
}  // namespace shampoo

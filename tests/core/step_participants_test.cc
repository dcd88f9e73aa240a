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

// Four parameters: with a gradient, without a gradient, without elements, and with a gradient.
struct FourParams : StepFixture {
  FourParams() : StepFixture({}, {{2, 2}, {2, 2}, {0, 2}, {3}}), participants(plan()) {
    Bind(1, nullptr);
    const float any = 0;
    Bind(2, &any);
  }

  Participants participants;
};

TEST_CASE("no parameter takes part before parameters are chosen") {
  const FourParams four;
  CHECK(Chosen(four.participants, four.plan()) == std::vector<bool>(4, false));
}

TEST_CASE("a parameter takes part if this rank has elements and a gradient of it") {
  FourParams four;
  four.participants.ChooseOwnGradients(four.inputs().buffers);
  CHECK(Chosen(four.participants, four.plan()) == std::vector<bool>{true, false, false, true});
}

TEST_CASE("each choice replaces the previous one") {
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

TEST_CASE("the flags are in the order of the parameters, and a caller may set them") {
  FourParams four;
  REQUIRE(four.participants.flags().size() == 4);
  four.participants.flags()[2] = 1;
  CHECK(Chosen(four.participants, four.plan()) == std::vector<bool>{false, false, true, false});
  const Participants& read = four.participants;
  CHECK(std::vector<char>(read.flags().begin(), read.flags().end()) == std::vector<char>{0, 0, 1, 0});
}

}  // namespace
}  // namespace shampoo

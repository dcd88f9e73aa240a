// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <vector>

#include "core/rules/basis.h"
#include "core/rules/norms.h"

namespace shampoo {
namespace {

GroupSettings SettingsOf(BasisOrder order, FirstStep first, int64_t frequency, int64_t start = 1) {
  GroupSettings settings;
  settings.method = Method::kSoap;
  settings.basis_order = order;
  settings.first_step = first;
  settings.precondition_frequency = frequency;
  settings.start_preconditioning_step = start;
  return settings;
}

// Returns the numbers of the gradients, counted from 1, at which a block computes eigenbases.
std::vector<int64_t> TasksOf(const GroupSettings& settings, int64_t gradients) {
  std::vector<int64_t> tasks;
  for (int64_t before = 0; before < gradients; ++before) {
    if (Refreshes(BasisTaskOf(settings, before))) tasks.push_back(before + 1);
  }
  return tasks;
}

using Numbers = std::vector<int64_t>;

TEST_CASE(
    "with basis_order=after, eigenbases are computed at the first gradient and at every precondition_frequency-th "
    "update") {
  // With first_step=skip, update u uses gradient u + 1.
  CHECK(TasksOf(SettingsOf(BasisOrder::kAfter, FirstStep::kSkip, 3), 11) == Numbers{1, 4, 7, 10});
  CHECK(TasksOf(SettingsOf(BasisOrder::kAfter, FirstStep::kSkip, 1), 4) == Numbers{1, 2, 3, 4});
  CHECK(TasksOf(SettingsOf(BasisOrder::kAfter, FirstStep::kUse, 3), 11) == Numbers{1, 3, 6, 9});
  CHECK(TasksOf(SettingsOf(BasisOrder::kAfter, FirstStep::kUse, 1), 3) == Numbers{1, 2, 3});
  // The key start_preconditioning_step has no effect.
  CHECK(TasksOf(SettingsOf(BasisOrder::kAfter, FirstStep::kSkip, 3, 5), 11) == Numbers{1, 4, 7, 10});
}

TEST_CASE(
    "with basis_order=before, eigenbases are computed at start_preconditioning_step and at later multiples of "
    "precondition_frequency") {
  for (const FirstStep first : {FirstStep::kSkip, FirstStep::kUse}) {  // first_step has no effect
    CHECK(TasksOf(SettingsOf(BasisOrder::kBefore, first, 3, 1), 9) == Numbers{1, 3, 6, 9});
    CHECK(TasksOf(SettingsOf(BasisOrder::kBefore, first, 3, 3), 9) == Numbers{3, 6, 9});
    CHECK(TasksOf(SettingsOf(BasisOrder::kBefore, first, 3, 5), 12) == Numbers{5, 6, 9, 12});
    CHECK(UpdatesOf(SettingsOf(BasisOrder::kBefore, first, 3, 5), 1) == 1);
  }
}

TEST_CASE(
    "with norm_control=hyperball, a step moves a tensor by lr times its radius, and then scales its norm back to the "
    "radius") {
  GroupSettings settings;
  settings.norm_control = NormControl::kHyperball;
  const NormSums sums{9, 0, 16};  // |P| is 4, and D (see NormControlStep) is 0.5 * 4 * P, so |D| is 8
  NormControlStep step(settings, 0.1, sums, 5, {0.5, 4, 8});
  step.Add(sums);
  CHECK(step.MoveOf(sums).keep == 1);
  CHECK(step.MoveOf(sums).move == doctest::Approx(0.1 * 5 / 8 * 2));
  CHECK(step.NeedsNorm());
  CHECK(step.Ratio(3) == doctest::Approx(5.0 / 3));
  NormControlStep still(settings, 0.1, {}, 5, {0.5, 4, 0});
  still.Add({});
  CHECK(still.MoveOf({}).move == 0);
}

TEST_CASE("with norm_control=radial, a step perpendicular to the parameter does not change the norm of the parameter") {
  GroupSettings settings;
  settings.norm_control = NormControl::kRadial;
  settings.radial_outward = 0.5;
  settings.radial_inward = 0.25;
  const NormSums across{36, 0, 4};
  NormControlStep step(settings, 1, across, 0, {1, 1, 0});
  step.Add(across);
  const double moved = std::sqrt(36.0 + 4);
  CHECK(step.Ratio(moved) * moved == doctest::Approx(6));
}

}  // namespace
}  // namespace shampoo

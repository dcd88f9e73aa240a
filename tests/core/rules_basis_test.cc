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
  settings.use_bias_correction = true;
  settings.beta1 = 0.9;
  settings.beta2 = 0.8;
  settings.shampoo_beta = 0.5;
  return settings;
}

// Returns the numbers of the gradients, counted from 1, at which a block computes eigenbases. In the names of test
// cases, f is precondition_frequency.
std::vector<int64_t> TasksOf(const GroupSettings& settings, int64_t gradients) {
  std::vector<int64_t> tasks;
  for (int64_t before = 0; before < gradients; ++before) {
    if (Refreshes(BasisTaskOf(settings, before))) tasks.push_back(before + 1);
  }
  return tasks;
}

using Numbers = std::vector<int64_t>;

TEST_CASE("with basis_order=after, the first gradient gives the bases, and every f-th update refreshes them") {
  // With first_step skip, update u is gradient u + 1.
  CHECK(TasksOf(SettingsOf(BasisOrder::kAfter, FirstStep::kSkip, 3), 11) == Numbers{1, 4, 7, 10});
  CHECK(TasksOf(SettingsOf(BasisOrder::kAfter, FirstStep::kSkip, 1), 4) == Numbers{1, 2, 3, 4});
  CHECK(TasksOf(SettingsOf(BasisOrder::kAfter, FirstStep::kUse, 3), 11) == Numbers{1, 3, 6, 9});
  CHECK(TasksOf(SettingsOf(BasisOrder::kAfter, FirstStep::kUse, 1), 3) == Numbers{1, 2, 3});
  // start_preconditioning_step does not matter.
  CHECK(TasksOf(SettingsOf(BasisOrder::kAfter, FirstStep::kSkip, 3, 5), 11) == Numbers{1, 4, 7, 10});
}

TEST_CASE("the first eigenbases are computed by the task kInitialize, and all later ones by kCompute") {
  const GroupSettings after = SettingsOf(BasisOrder::kAfter, FirstStep::kSkip, 3);
  CHECK(BasisTaskOf(after, 0) == RootTask::kInitialize);
  CHECK(BasisTaskOf(after, 1) == RootTask::kNone);
  CHECK(BasisTaskOf(after, 3) == RootTask::kCompute);
  const GroupSettings before = SettingsOf(BasisOrder::kBefore, FirstStep::kSkip, 3, 5);
  CHECK(BasisTaskOf(before, 0) == RootTask::kNone);
  CHECK(BasisTaskOf(before, 4) == RootTask::kInitialize);
  CHECK(BasisTaskOf(before, 5) == RootTask::kCompute);
  CHECK(ReadsFactors(RootTask::kInitialize));
}

TEST_CASE("with basis_order=after and first_step=skip, the first gradient makes no update and causes no refresh") {
  const GroupSettings skips = SettingsOf(BasisOrder::kAfter, FirstStep::kSkip, 1);
  CHECK(UpdatesOf(skips, 1) == 0);
  CHECK(UpdatesOf(skips, 5) == 4);
  CHECK(!IsBasisDue(skips, 1));
  CHECK(IsBasisDue(skips, 2));
  const GroupSettings uses = SettingsOf(BasisOrder::kAfter, FirstStep::kUse, 1);
  CHECK(UpdatesOf(uses, 1) == 1);
  CHECK(IsBasisDue(uses, 1));
}

TEST_CASE("with basis_order=before, bases are refreshed at the start step and at later multiples of f") {
  for (const FirstStep first : {FirstStep::kSkip, FirstStep::kUse}) {  // not read
    CHECK(TasksOf(SettingsOf(BasisOrder::kBefore, first, 3, 1), 9) == Numbers{1, 3, 6, 9});
    CHECK(TasksOf(SettingsOf(BasisOrder::kBefore, first, 3, 3), 9) == Numbers{3, 6, 9});
    CHECK(TasksOf(SettingsOf(BasisOrder::kBefore, first, 3, 5), 12) == Numbers{5, 6, 9, 12});
    CHECK(UpdatesOf(SettingsOf(BasisOrder::kBefore, first, 3, 5), 1) == 1);
  }
}

TEST_CASE("the bias corrections of a block count its own updates") {
  GroupSettings settings = SettingsOf(BasisOrder::kAfter, FirstStep::kSkip, 1);
  StepScalars scalars;
  CorrectBias(settings, 3, &scalars);
  CHECK(scalars.filter_correction == doctest::Approx(1 - 0.9 * 0.9 * 0.9));
  CHECK(scalars.moment_correction == doctest::Approx(1 - 0.8 * 0.8 * 0.8));

  settings.beta2 = 1;
  CorrectBias(settings, 3, &scalars);
  CHECK(scalars.filter_correction == doctest::Approx(0.271));
  CHECK(scalars.moment_correction == 1);

  settings.beta2 = 0.8;
  settings.drop_weighting = true;
  CorrectBias(settings, 3, &scalars);
  CHECK(scalars.filter_correction == doctest::Approx(0.271));
  CHECK(scalars.moment_correction == 1);

  settings.drop_weighting = false;
  settings.use_bias_correction = false;
  CorrectBias(settings, 3, &scalars);
  CHECK(scalars.filter_correction == 1);
  CHECK(scalars.moment_correction == 1);
}

TEST_CASE("the bias of factor matrices is corrected only with basis_order=before") {
  GroupSettings settings = SettingsOf(BasisOrder::kBefore, FirstStep::kSkip, 1);
  CHECK(BasisCorrection(settings, 1) == 0.5);
  CHECK(BasisCorrection(settings, 3) == 0.875);
  GroupSettings other = settings;
  other.basis_order = BasisOrder::kAfter;
  CHECK(BasisCorrection(other, 3) == 1);
  other = settings;
  other.use_bias_correction = false;
  CHECK(BasisCorrection(other, 3) == 1);
  other = settings;
  other.drop_weighting = true;
  CHECK(BasisCorrection(other, 3) == 1);
  other = settings;
  other.shampoo_beta = 1;
  CHECK(BasisCorrection(other, 3) == 1);
  // Updates 1, 3 and 5 have changed the matrices that update 6 reads.
  other = settings;
  other.factor_update_frequency = 2;
  CHECK(BasisCorrection(other, 6) == 0.875);
}

TEST_CASE(
    "in factor matrices, the first gradient has the weight of later gradients or, with factor_start=first, weight 1") {
  GroupSettings settings = SettingsOf(BasisOrder::kAfter, FirstStep::kSkip, 1);
  const StepScalars scalars = MakeStepScalars(settings, 1);
  CHECK(scalars.factor_decay == 0.5);  // shampoo_beta
  CHECK(FirstFactorWeight(settings, scalars) == 0.5);
  settings.factor_start = FactorStart::kFirst;
  CHECK(FirstFactorWeight(settings, scalars) == 1);
}

TEST_CASE("the first eigenvalues are kl_init or, if kl_init is auto, follow from the first gradient") {
  GroupSettings settings;
  settings.kl_init = 0.5;
  CHECK(EigenvalueBeforeGradients(settings) == 0.5);
  CHECK(FirstTermScale(settings, 3, 2) == 1);
  settings.kl_init = -1;
  CHECK(EigenvalueBeforeGradients(settings) == 0.1);
  CHECK(FirstEigenvalue(4, 1, Dtype::kF64) == 4);
  CHECK(FirstEigenvalue(4, 2, Dtype::kF64) == 2);
  CHECK(FirstEigenvalue(8, 3, Dtype::kF64) == doctest::Approx(2));
  CHECK(FirstEigenvalue(0, 2, Dtype::kF64) == 0.1);
  CHECK(FirstEigenvalue(1e-40, 2, Dtype::kF64) == doctest::Approx(1e-20));
  CHECK(FirstEigenvalue(1e-40, 2, Dtype::kF32) == 0.1);
  CHECK(FirstTermScale(settings, 3, 1) == 1);
  CHECK(FirstTermScale(settings, 3, 2) == 9);
  CHECK(FirstTermScale(settings, 3, 3) == 81);
}

TEST_CASE("the average of the eigenvalues is bias-corrected with kl_init auto") {
  GroupSettings settings = SettingsOf(BasisOrder::kAfter, FirstStep::kSkip, 1);
  settings.shampoo_beta = 0.5;
  settings.kl_init = 0.1;
  CHECK(EigenvalueDecay(settings, 1) == 0.5);
  settings.kl_init = -1;
  CHECK(EigenvalueDecay(settings, 1) == 0);
  CHECK(EigenvalueDecay(settings, 2) == doctest::Approx(1.0 / 3));
  CHECK(EigenvalueDecay(settings, 3) == doctest::Approx(3.0 / 7));
  settings.factor_update_frequency = 2;
  CHECK(EigenvalueDecay(settings, 3) == doctest::Approx(1.0 / 3));
  settings.factor_update_frequency = 1;
  settings.first_step = FirstStep::kUse;
  CHECK(EigenvalueDecay(settings, 2) == 0);
  CHECK(EigenvalueDecay(settings, 3) == doctest::Approx(1.0 / 3));
  settings.shampoo_beta = 1;
  CHECK(EigenvalueDecay(settings, 4) == doctest::Approx(2.0 / 3));
}

TEST_CASE("an automatic relative epsilon is 1024 unit roundoffs") {
  GroupSettings settings;
  settings.relative_epsilon = -1;
  CHECK(RelativeEpsilon(settings, Dtype::kF32) == std::ldexp(1, -14));
  CHECK(RelativeEpsilon(settings, Dtype::kF64) == std::ldexp(1, -43));
  settings.relative_epsilon = 0;
  CHECK(RelativeEpsilon(settings, Dtype::kF32) == 0);
  settings.relative_epsilon = 0.25;
  CHECK(RelativeEpsilon(settings, Dtype::kF64) == 0.25);
}

TEST_CASE(
    "an automatic cap is the size of the dim, from 10 to 4000, and with kl_init auto it is relative to the mean") {
  GroupSettings settings;
  settings.kl_cap = -1;
  const std::initializer_list<std::pair<int64_t, double>> caps = {{1, 10},    {9, 10},      {10, 10},    {11, 11},
                                                                  {512, 512}, {4000, 4000}, {4001, 4000}};
  settings.kl_init = 0.1;
  for (const auto& [d, cap] : caps) CHECK(KlCap(settings, d, 0.25) == cap);
  settings.kl_init = -1;
  for (const auto& [d, cap] : caps) CHECK(KlCap(settings, d, 0.25) == 2 * cap);
  settings.kl_cap = 0;
  CHECK(std::isinf(KlCap(settings, 12, 0.25)));
  settings.kl_cap = 2.5;
  CHECK(KlCap(settings, 12, 0.25) == 2.5);
}

TEST_CASE("the inverse square root of an eigenvalue is at most the cap, even if the eigenvalue is not positive") {
  CHECK(KlScale(4, 10) == 0.5);
  CHECK(KlScale(0.0625, 4) == 4);
  CHECK(KlScale(0.01, 4) == 4);
  CHECK(KlScale(0, 4) == 4);
  CHECK(KlScale(-1, 4) == 4);
  CHECK(KlScale(0.01, HUGE_VAL) == doctest::Approx(10));
}

TEST_CASE("update_norm sets the norm of a direction, and max_update_rms limits the norm afterwards") {
  GroupSettings settings;
  settings.update_norm_target = 3;
  const DirectionScale direction{0.5, 4, 8};  // P * 0.5 * 4 has norm 8
  const auto factor = [&](int64_t elements, const DirectionScale& scale) {
    const DirectionScale limited = LimitNorm(settings, elements, 0, 0, scale);
    CHECK(limited.down * limited.up / (scale.down * scale.up) * scale.size == doctest::Approx(limited.size));
    return limited.size;
  };
  CHECK(factor(16, direction) == 8);
  settings.update_norm = UpdateNorm::kFrobenius;
  CHECK(factor(16, direction) == 3);
  settings.update_norm = UpdateNorm::kRms;
  CHECK(factor(16, direction) == 12);
  settings.max_update_rms = 2;
  CHECK(factor(16, direction) == 8);  // 2 sqrt(16)
  settings.update_norm = UpdateNorm::kNone;
  CHECK(factor(16, direction) == 8);
  CHECK(factor(4, direction) == 4);
  CHECK(factor(64, direction) == 8);
  // A direction of 0 stays 0.
  settings.update_norm = UpdateNorm::kRms;
  const DirectionScale zero = LimitNorm(settings, 16, 0, 0, {1, 1, 0});
  CHECK(zero.size == 0);
  CHECK(zero.up == 1);
}

TEST_CASE("shape_scale multiplies the direction of a matrix after update_norm and before max_update_rms") {
  GroupSettings settings;
  const auto size = [&](ShapeScale scale, int64_t rows, int64_t columns) {
    settings.shape_scale = scale;
    return LimitNorm(settings, 64, rows, columns, {1, 1, 8}).size;
  };
  CHECK(size(ShapeScale::kNone, 16, 4) == 8);
  CHECK(size(ShapeScale::kMuon, 16, 4) == 16);
  CHECK(size(ShapeScale::kMuon, 4, 16) == 8);
  CHECK(size(ShapeScale::kRmsAdam, 16, 4) == doctest::Approx(0.2 * 4 * 8));
  CHECK(size(ShapeScale::kRmsAdam, 4, 16) == doctest::Approx(0.2 * 4 * 8));
  CHECK(size(ShapeScale::kSpectral, 4, 16) == 4);
  CHECK(size(ShapeScale::kSqrtMax, 4, 16) == 32);
  CHECK(size(ShapeScale::kSqrtMax, 0, 0) == 8);  // a vector
  settings.update_norm = UpdateNorm::kFrobenius;
  settings.update_norm_target = 3;
  CHECK(size(ShapeScale::kSpectral, 16, 4) == 6);
  settings.max_update_rms = 0.5;
  CHECK(size(ShapeScale::kSpectral, 16, 4) == 4);
}

// The norm control of a tensor of one element, whose inner products are exact: W = w, P = p, D = 2 p.
struct Scalar {
  GroupSettings settings;
  double radius = 0;

  // Returns the element W after a step.
  double After(double w, double p, double lr) const {
    const NormSums sums{w * w, p * w, p * p};
    NormControlStep step(settings, lr, sums, radius, {0.5, 4, 0});
    step.Add(sums);
    const ControlledMove move = step.MoveOf(sums);
    const double moved = move.keep * w - move.move * p;
    return step.Ratio(std::fabs(moved)) * moved;
  }
};

TEST_CASE("a step on the hyperball moves by lr times the radius and returns to the radius") {
  GroupSettings settings;
  settings.norm_control = NormControl::kHyperball;
  const NormSums sums{9, 0, 16};  // |P| is 4, and |D| is 8
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

TEST_CASE("norm_control relative moves by lr times the norm of the parameter") {
  Scalar of;
  of.settings.norm_control = NormControl::kRelative;
  CHECK(of.After(6, 0.5, 0.25) == doctest::Approx(4.5));
  CHECK(of.After(6, -8, 0.25) == doctest::Approx(7.5));
  CHECK(of.After(6, 0, 0.25) == 6);
}

TEST_CASE("norm_control radial_brake multiplies the change of the norm") {
  Scalar of;
  of.settings.norm_control = NormControl::kRadialBrake;
  of.settings.radial_outward = 0.5;
  of.settings.radial_inward = 0.25;
  CHECK(of.After(6, -1, 1) == doctest::Approx(7));   // to 8 without the brake
  CHECK(of.After(6, 1, 1) == doctest::Approx(5.5));  // to 4
  CHECK(of.After(2, 4, 1) == doctest::Approx(-4));   // to -6: the norm grows by 4
}

TEST_CASE("norm_control radial multiplies the part of the direction along the parameter") {
  Scalar of;
  of.settings.norm_control = NormControl::kRadial;
  of.settings.radial_outward = 0.5;
  of.settings.radial_inward = 0.25;
  CHECK(of.After(6, -1, 1) == doctest::Approx(7));
  CHECK(of.After(6, 1, 1) == doctest::Approx(5.5));
  CHECK(of.After(0, 1, 1) == doctest::Approx(-2));  // a parameter with norm 0 makes an ordinary step

  // A direction perpendicular to the parameter rotates the parameter and does not change its norm.
  const NormSums across{36, 0, 4};
  NormControlStep step(of.settings, 1, across, 0, {1, 1, 0});
  step.Add(across);
  const double moved = std::sqrt(36.0 + 4);
  CHECK(step.Ratio(moved) * moved == doctest::Approx(6));
}

TEST_CASE("update_floor lengthens a direction to a multiple of the norm of the parameter") {
  Scalar of;
  of.settings.update_floor = 0.5;
  CHECK(of.After(6, 0.5, 1) == doctest::Approx(3));  // D is lengthened from 1 to 3
  CHECK(of.After(6, -0.5, 1) == doctest::Approx(9));
  CHECK(of.After(6, 4, 1) == doctest::Approx(-2));  // D is 8, above the floor
  CHECK(of.After(6, 0, 1) == 6);
}

}  // namespace
}  // namespace shampoo

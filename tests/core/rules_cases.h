// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iterator>

#include "core/rules/bound_scalars.h"
#include "core/rules/coupled_scalars.h"
#include "core/rules/eigenvalue.h"
#include "core/rules/growth.h"
#include "core/rules/update.h"
#include "tests/core/rules_eigenbasis_cases.h"
#include "tests/core/rules_method_cases.h"
#include "tests/core/rules_rank_cases.h"

// Tables of test cases for the rules in core/rules. A case has the arguments of a rule and the expected result.
// tests/core runs the rules on the host, and tests/cuda runs the rules in a kernel. Each type of case has a function
// Run(), which calls a rule and returns the result as a number. In many types, the member `ask` selects which rule
// Run() calls, or which part of the result it returns.
namespace shampoo {

inline constexpr double kMaxOfF32 = LargestFinite(Dtype::kF32);
inline constexpr double kMaxOfF64 = LargestFinite(Dtype::kF64);

// A scalar that MakeStepScalars computes for step t of a group whose key `key` has the value `value`. The expected
// numbers were computed by hand.
struct ScalarCase {
  double GroupSettings::*key;
  double value;
  int64_t t;
  double StepScalars::*scalar;
  double expected;
  WeightDecayType decay = WeightDecayType::kDecoupled;
  bool corrects = true;
  Method method = Method::kShampoo;

  SHAMPOO_HD double Run() const {
    GroupSettings settings;
    settings.method = method;
    settings.beta1 = 0.5;
    settings.beta2 = 0.75;
    settings.grafting_beta2 = 0.5;
    settings.grafting = Grafting::kAdam;
    settings.lr = 0.5;
    settings.use_bias_correction = corrects;
    settings.weight_decay_type = decay;
    settings.*key = value;
    return MakeStepScalars(settings, t).*scalar;
  }
};

inline constexpr ScalarCase kScalarCases[] = {
    {&GroupSettings::beta1, 0.5, 2, &StepScalars::filter_decay, 0.5},
    {&GroupSettings::beta1, 0.5, 2, &StepScalars::filter_correction, 0.75},
    {&GroupSettings::beta1, 0, 2, &StepScalars::filter_correction, 1},
    {&GroupSettings::beta1, 0.5, 2, &StepScalars::filter_correction, 1, WeightDecayType::kDecoupled, false},
    {&GroupSettings::beta2, 0.75, 2, &StepScalars::factor_weight, 0.25},
    {&GroupSettings::beta2, 0.75, 2, &StepScalars::factor_correction, 0.4375},
    {&GroupSettings::beta2, 0.75, 2, &StepScalars::factor_correction, 1, WeightDecayType::kDecoupled, false},
    {&GroupSettings::beta2, 1, 2, &StepScalars::factor_weight, 1},
    {&GroupSettings::beta2, 1, 2, &StepScalars::factor_correction, 1},
    {&GroupSettings::grafting_beta2, 0.5, 3, &StepScalars::moment_weight, 0.5},
    {&GroupSettings::grafting_beta2, 0.5, 3, &StepScalars::moment_correction, 0.875},
    // With grafting=adam, the bias of V is corrected even if use_bias_correction is false.
    {&GroupSettings::grafting_beta2, 0.5, 3, &StepScalars::moment_correction, 0.875, WeightDecayType::kDecoupled,
     false},
    {&GroupSettings::grafting_beta2, 1, 3, &StepScalars::moment_weight, 1},
    {&GroupSettings::grafting_beta2, 1, 3, &StepScalars::moment_correction, 1},
    // An elementwise method uses beta2 and epsilon instead of grafting_beta2 and grafting_epsilon. It corrects the bias
    // of V only if use_bias_correction is true.
    {&GroupSettings::beta2, 0.75, 2, &StepScalars::moment_decay, 0.75, WeightDecayType::kDecoupled, true,
     Method::kAdam},
    {&GroupSettings::beta2, 0.75, 2, &StepScalars::moment_weight, 0.25, WeightDecayType::kDecoupled, true,
     Method::kAdam},
    {&GroupSettings::beta2, 0.75, 2, &StepScalars::moment_correction, 0.4375, WeightDecayType::kDecoupled, true,
     Method::kAdam},
    {&GroupSettings::beta2, 0.75, 2, &StepScalars::moment_correction, 1, WeightDecayType::kDecoupled, false,
     Method::kAdam},
    {&GroupSettings::epsilon, 0.5, 1, &StepScalars::moment_epsilon, 0.5, WeightDecayType::kDecoupled, true,
     Method::kAdam},
    {&GroupSettings::grafting_epsilon, 0.5, 1, &StepScalars::moment_epsilon, 0.5},
    {&GroupSettings::weight_decay, 0.125, 1, &StepScalars::decoupled_decay, 0.125},
    {&GroupSettings::weight_decay, 0.125, 1, &StepScalars::coupled_decay, 0},
    {&GroupSettings::weight_decay, 0.125, 1, &StepScalars::decoupled_decay, 0, WeightDecayType::kCoupled},
    {&GroupSettings::weight_decay, 0.125, 1, &StepScalars::coupled_decay, 0.125, WeightDecayType::kCoupled},
    {&GroupSettings::weight_decay, 0.125, 1, &StepScalars::shrinkage, 0},
    {&GroupSettings::weight_decay, 0.125, 1, &StepScalars::decoupled_decay, 0.0625, WeightDecayType::kPalm},
    {&GroupSettings::weight_decay, 0.125, 1, &StepScalars::shrinkage, 0, WeightDecayType::kPalm},
    {&GroupSettings::weight_decay, 0.125, 1, &StepScalars::shrinkage, 0.125, WeightDecayType::kIndependent},
    {&GroupSettings::weight_decay, 0.125, 1, &StepScalars::decoupled_decay, 0, WeightDecayType::kIndependent},
    {&GroupSettings::weight_decay, 0.125, 1, &StepScalars::coupled_decay, 0, WeightDecayType::kIndependent},
    {&GroupSettings::root_relative_epsilon, 0, 1, &StepScalars::norm_guard, 1e-16},
    {&GroupSettings::root_relative_epsilon, 1e-6, 1, &StepScalars::norm_guard, 1e-37},
    {&GroupSettings::lr, 0.25, 1, &StepScalars::lr, 0.25},
    {&GroupSettings::momentum, 0.25, 1, &StepScalars::momentum, 0.25},
    {&GroupSettings::momentum, 0.25, 1, &StepScalars::momentum_weight, 1},
    {&GroupSettings::momentum_dampening, 0.25, 1, &StepScalars::momentum_weight, 0.75},
};

// Whether a step can use a number that the caller has bound to a key (IsUsable).
struct BoundCase {
  const char* key;
  Dtype narrowest;  // the narrowest computation dtype of the blocks that use the number
  double value;
  double expected;  // 1: usable

  SHAMPOO_HD double Run() const { return IsUsable(number, value, narrowest) ? 1 : 0; }
  int number = BindableKey(key);
};

inline constexpr BoundCase kBoundCases[] = {
    {"lr", Dtype::kF32, 3e38, 1},
    {"lr", Dtype::kF32, 1e39, 0},
    {"lr", Dtype::kF64, 1e39, 1},
    {"lr", Dtype::kF64, 1e300, 1},
    {"lr", Dtype::kF64, kInfinite, 0},
    {"lr", Dtype::kF64, kNotANumber, 0},
    {"lr", Dtype::kF64, -1e-300, 0},
    {"lr", Dtype::kF32, 1e-50, 1},
    {"lr", Dtype::kF32, 0, 1},
    {"weight_decay", Dtype::kF32, 1e39, 0},
    {"weight_decay", Dtype::kF64, -1e-300, 0},
    {"weight_decay", Dtype::kF32, 1e-50, 1},
    {"beta1", Dtype::kF32, 0, 1},
    {"beta1", Dtype::kF32, 0.999, 1},
    {"beta1", Dtype::kF32, 1, 0},
    {"beta1", Dtype::kF64, -1e-300, 0},
    {"beta1", Dtype::kF64, kNotANumber, 0},
    {"gradient_scale", Dtype::kF32, -1e39, 0},
    {"gradient_scale", Dtype::kF64, -1e39, 1},
    {"gradient_scale", Dtype::kF32, 1e-50, 0},
    {"gradient_scale", Dtype::kF32, -1e-50, 0},
    {"gradient_scale", Dtype::kF32, 1e-40, 1},
    {"gradient_scale", Dtype::kF64, 1e-50, 1},
    {"gradient_scale", Dtype::kF32, 0, 1},
    {"gradient_scale", Dtype::kF64, kNotANumber, 0},
    {"gradient_scale", Dtype::kF64, -kInfinite, 0},
};

// Whether a step would overflow a state of a block (core/rules/growth.h). Three states of the block can overflow: two
// factor matrices and a second moment.
struct GrowthCase {
  enum class Ask { kCannotOverflow, kFault, kDim };
  Ask ask;
  Dtype computation;
  Dtype state;
  bool by_state;    // false: the rule checks only the term that the gradient adds, and reads no states
  double in_state;  // the largest element of each state
  double largest;   // the largest |G|
  double rounding;  // see GradientRounding
  double expected;  // kCannotOverflow: 1 or 0; kFault: GrowthFault::State; kDim: GrowthFault::dim

  struct Slot {
    Dtype dtype = Dtype::kF32;
    bool is_present = true;
    constexpr bool present() const { return is_present; }
  };
  struct Block {
    Dtype computation;
    Slot filtered_grad;
    Slot v;
    Slot factor[2];
    int64_t shape[2] = {4, 8};
    int64_t elements = 32;
    constexpr int factor_count() const { return 2; }
    constexpr const Slot& moment() const { return v; }
    constexpr bool is_rotated() const { return false; }
  };
  struct Largest {
    double value;
    constexpr double LargestMoment() const { return value; }
    constexpr double LargestDiagonal(int) const { return value; }
  };

  SHAMPOO_HD double Run() const {
    StepScalars step;
    step.factor_decay = 0.5;
    step.factor_weight = 0.5;
    step.moment_decay = 0.5;
    step.moment_weight = 0.5;
    const Slot slot{state, true};
    const Block block{computation, {state, false}, slot, {slot, slot}};
    const Growth<Block, Largest> growth(step, block, {in_state}, by_state);
    if (ask == Ask::kCannotOverflow) return growth.CannotOverflow(largest) ? 1 : 0;
    const double square = largest * largest;
    const GrowthFault fault =
        growth.FindFault(largest, rounding, [square](int k) { return k == 0 ? square : 4 * square; });
    return ask == Ask::kDim ? fault.dim : static_cast<double>(fault.state);
  }
};

inline constexpr auto kCannot = GrowthCase::Ask::kCannotOverflow;
inline constexpr auto kFault = GrowthCase::Ask::kFault;
inline constexpr GrowthCase kGrowthCases[] = {
    {kCannot, Dtype::kF32, Dtype::kF32, true, 1, 1, 0, 1},
    // The added term is below kNegligibleGrowth times the limit, so the rule does not read the state.
    {kCannot, Dtype::kF32, Dtype::kF32, true, kMaxOfF32, 1e10, 0, 1},
    {kCannot, Dtype::kF32, Dtype::kF32, true, kMaxOfF32, 1e18, 0, 0},
    {kCannot, Dtype::kF32, Dtype::kF32, false, kMaxOfF32, 1e18, 0, 1},  // the rule checks only the added term
    {kCannot, Dtype::kF32, Dtype::kF32, false, 0, 1e19, 0, 0},
    {kCannot, Dtype::kF64, Dtype::kF32, true, 0, 1e19, 0, 0},  // the dtype of the states has a smaller range
    {kCannot, Dtype::kF64, Dtype::kF64, true, 0, 1e19, 0, 1},
    {kCannot, Dtype::kF32, Dtype::kF16, true, 0, 200, 0, 0},
    {kCannot, Dtype::kF32, Dtype::kF16, true, 0, 10, 0, 1},
    {kCannot, Dtype::kF32, Dtype::kF32, true, 0, kNotANumber, 0, 0},
    {kCannot, Dtype::kF32, Dtype::kF32, true, 0, kInfinite, 0, 0},
    {kCannot, Dtype::kF32, Dtype::kF32, true, kNotANumber, 1e18, 0, 0},
    {kFault, Dtype::kF32, Dtype::kF16, true, 0, 1, 0, 0},
    {kFault, Dtype::kF32, Dtype::kF16, false, 0, 400, 0, 1},  // 0.5 * 400^2 > 65504
    {kFault, Dtype::kF32, Dtype::kF16, false, 0, 200, 0, 2},  // 0.5 * 4 * 200^2 > 65504
    {GrowthCase::Ask::kDim, Dtype::kF32, Dtype::kF16, false, 0, 200, 0, 1},
    {kFault, Dtype::kF32, Dtype::kF16, true, 119000, 100, 0, 2},  // 20000 fits, but 59500 + 20000 does not
    {GrowthCase::Ask::kDim, Dtype::kF32, Dtype::kF16, true, 119000, 100, 0, 1},
    {kFault, Dtype::kF32, Dtype::kF16, false, 119000, 100, 0, 0},
    {kFault, Dtype::kF32, Dtype::kF16, true, 120000, 110, 0, 1},
    {kFault, Dtype::kF32, Dtype::kF32, false, 0, 1e18, 0, 0},
    {kFault, Dtype::kF32, Dtype::kF32, false, 0, 1e18, 2e19, 1},  // only the rounding error overflows
};

// The update of one element (ApplyElement). The element is p in the direction, w in the parameter and m in the
// momentum. Run() computes the update in float32 and in float64. All values are exact in both dtypes.
struct ElementCase {
  enum class Part { kMoved, kUpdate, kValue };
  Part part;
  bool has_momentum;
  bool nesterov;
  double decay;
  double p, w, m;
  double expected;
  double shrinkage = 0;
  bool cautious = false;
  double momentum_weight = 1;

  template <typename Real>
  SHAMPOO_HD double RunAs() const {
    const ApplyScalars<Real> scalars{Real{2},
                                     Real{0.5},
                                     static_cast<Real>(decay),
                                     Real{0.5},
                                     static_cast<Real>(momentum_weight),
                                     Real{0.25},
                                     static_cast<Real>(shrinkage),
                                     nesterov,
                                     cautious};
    const auto real = [](double value) { return static_cast<Real>(value); };
    const AppliedElement<Real> applied = has_momentum ? ApplyElement<true>(scalars, real(p), real(w), real(m))
                                                      : ApplyElement<false>(scalars, real(p), real(w), real(m));
    return static_cast<double>(part == Part::kMoved    ? applied.moved
                               : part == Part::kUpdate ? applied.update
                                                       : applied.value);
  }
  // Returns the result, or kNoResult if the results in the two dtypes differ.
  SHAMPOO_HD double Run() const {
    const double wide = RunAs<double>();
    const double narrow = RunAs<float>();
    const bool both_nan = wide != wide && narrow != narrow;
    return wide == narrow || both_nan ? wide : kNoResult;
  }
};

inline constexpr auto kMoved = ElementCase::Part::kMoved;
inline constexpr auto kUpdate = ElementCase::Part::kUpdate;
inline constexpr auto kValue = ElementCase::Part::kValue;
inline constexpr ElementCase kElementCases[] = {
    {kMoved, false, false, 0, 4, 1, 8, 0},
    {kUpdate, false, false, 0, 4, 1, 8, -1},
    {kValue, false, false, 0, 4, 1.5, 8, 0.5},
    {kUpdate, false, false, 0.5, 4, 8, 0, -2},
    {kMoved, true, false, 0, 4, 1, 8, 8},
    {kUpdate, true, false, 0, 4, 1, 8, -2},
    {kUpdate, true, true, 0, 4, 1, 8, -2},  // -0.25 (4 + 0.5 * 8)
    {kUpdate, true, true, 0.5, 4, 8, 16, -4},
    // Without decay, W has no effect on P and M, even if W is infinite.
    {kMoved, true, false, 0, 4, kInfinite, 8, 8},
    {kUpdate, false, false, 0, 4, kInfinite, 0, -1},
    {kUpdate, true, true, 0, 4, kNotANumber, 8, -2},
    {kValue, false, false, 0, 4, kInfinite, 0, kInfinite},
    {kUpdate, false, false, 0.5, 4, kInfinite, 0, -kInfinite},
    {kUpdate, false, false, 0, kNotANumber, 1, 0, kNotANumber},
    {kUpdate, false, false, 0, 4, 8, 0, -3, 0.25},
    {kValue, false, false, 0, 4, 8, 0, 5, 0.25},
    {kUpdate, false, false, 0, 0, kInfinite, 0, -kInfinite, 0.25},
    // With a momentum_weight of 0.75, M is 0.5 * 8 + 0.75 * 4 = 7. Nesterov momentum then gives P = 0.75 * 4 + 0.5 * 7.
    {kMoved, true, false, 0, 4, 1, 8, 7, 0, false, 0.75},
    {kUpdate, true, false, 0, 4, 1, 8, -1.75, 0, false, 0.75},
    {kUpdate, true, true, 0, 4, 1, 8, -1.625, 0, false, 0.75},
    {kUpdate, false, false, 0, 4, 1, 0, -1, 0, false, 0.75},
};

// An element of the direction of an elementwise method or of grafting (MomentDirection). Run() computes the element in
// float32 and in float64. All values are exact in both dtypes.
struct MomentCase {
  double h, v, correction, epsilon;
  double expected;

  template <typename Real>
  SHAMPOO_HD double RunAs() const {
    FilterScalars<Real> scalars{};
    scalars.moment_correction = static_cast<Real>(correction);
    scalars.moment_epsilon = static_cast<Real>(epsilon);
    return static_cast<double>(MomentDirection(scalars, static_cast<Real>(h), static_cast<Real>(v)));
  }
  SHAMPOO_HD double Run() const {
    const double wide = RunAs<double>();
    return wide == RunAs<float>() ? wide : kNoResult;
  }
};

inline constexpr MomentCase kMomentCases[] = {
    {6, 4, 1, 1, 2},
    {6, 1, 0.25, 1, 2},
    {-3, 0, 1, 0.5, -6},
    // The divisor is 0, because this gradient and all earlier ones were 0, or because their squares underflow.
    {0, 0, 1, 0, 0},
    {5, 0, 1, 0, 0},
};

// Whether the new values of an element fit the dtypes in which a step writes these values (ElementFits). The values are
// those of the momentum (moved), the update and the parameter (value).
struct FitCase {
  Dtype computation;
  Dtype param;
  Dtype out;
  Dtype momentum;
  double moved, update, value;
  bool param_is_finite;  // whether the old parameter is finite
  double expected;

  SHAMPOO_HD double Run() const {
    const UpdateTargets targets{computation, param, out,   Output::kParameters, true, momentum, false,
                                Dtype::kF32, false, false, Dtype::kF32};
    return ElementFits(LimitsOf(targets), AppliedElement<double>{moved, update, value}, value, param_is_finite) ? 1 : 0;
  }
};

inline constexpr FitCase kFitCases[] = {
    {Dtype::kF64, Dtype::kF64, Dtype::kF64, Dtype::kF64, 1, 1, 1, true, 1},
    {Dtype::kF64, Dtype::kF64, Dtype::kF64, Dtype::kF64, 1, 1, kMaxOfF64, true, 1},
    {Dtype::kF64, Dtype::kF64, Dtype::kF64, Dtype::kF64, 1, 1, -kInfinite, true, 0},
    {Dtype::kF64, Dtype::kF64, Dtype::kF64, Dtype::kF64, 1, 1, kInfinite, false, 1},
    {Dtype::kF64, Dtype::kF64, Dtype::kF64, Dtype::kF64, 1, 1, kNotANumber, false, 1},
    {Dtype::kF64, Dtype::kF64, Dtype::kF64, Dtype::kF64, kNotANumber, 1, 1, false, 0},
    {Dtype::kF64, Dtype::kF64, Dtype::kF64, Dtype::kF64, 1, -kInfinite, 1, false, 0},
    {Dtype::kF32, Dtype::kF16, Dtype::kF16, Dtype::kF32, 1e6, 1e6, 65504, true, 1},
    {Dtype::kF32, Dtype::kF16, Dtype::kF16, Dtype::kF32, 1e6, 1e6, 65505, true, 0},
    {Dtype::kF32, Dtype::kF32, Dtype::kF32, Dtype::kF16, 65505, 1, 1, true, 0},
    {Dtype::kF32, Dtype::kF32, Dtype::kF32, Dtype::kF16, 65504, 1e6, 1e6, true, 1},
};

// Whether bounds on the direction (size), the parameter and the momentum prove that the update fits the computation
// dtype (StaysSmall).
struct SmallCase {
  Dtype computation;
  double decay;
  double momentum;  // 0 means that there is no momentum
  double size, largest_w, largest_m;
  double expected;

  SHAMPOO_HD double Run() const {
    StepScalars step;
    step.decoupled_decay = decay;
    step.momentum = momentum;
    step.lr = 1;
    return StaysSmall(step, computation, momentum != 0, size, largest_w, largest_m) ? 1 : 0;
  }
};

inline constexpr SmallCase kSmallCases[] = {
    {Dtype::kF32, 0, 0, 1, 0, 0, 1},
    {Dtype::kF32, 0, 0, kMaxOfF32 * 0x1p-27, 0, 0, 1},
    {Dtype::kF32, 0, 0, kMaxOfF32 * 0x1p-26, 0, 0, 0},
    {Dtype::kF64, 0, 0, kMaxOfF32, 0, 0, 1},
    {Dtype::kF64, 0, 0, kMaxOfF64 * 0x1p-55, 0, 0, 0},
    {Dtype::kF32, 0, 0, kNotANumber, 0, 0, 0},
    {Dtype::kF32, 0, 0.5, 1, kInfinite, 1, 1},  // without decay, W is ignored
    {Dtype::kF32, 0.5, 0, 1, kInfinite, 0, 0},
    {Dtype::kF32, 0, 0.5, 1, 0, kInfinite, 0},
    {Dtype::kF32, 0, 0, 1, 0, kInfinite, 1},  // without momentum, M is ignored
    {Dtype::kF32, 0.5, 0.5, 1, kMaxOfF32 * 0x1p-25, 1, 0},
};

// With kRoot, a matrix has been multiplied by 2^-scale. The least eigenvalue of the scaled matrix is `least`, and the
// largest is 4. The rule maps `value`, an eigenvalue of the scaled matrix, to the matching eigenvalue of an inverse
// root. If relative_epsilon is above 0, this is the root of the scaled matrix, otherwise the root of the original
// matrix. With kScale, the rule returns the scale for a matrix: the library multiplies the matrix by 2^-scale.
struct EigenvalueCase {
  enum class Ask { kRoot, kScale };
  Ask ask;
  RootMethod method;
  double relative_epsilon;
  double epsilon;
  bool pseudo_inverse;
  int scale;
  double least;
  double value;  // kRoot: an eigenvalue of the scaled matrix; kScale: the largest element of the matrix
  double expected;

  SHAMPOO_HD double Run() const {
    RootSpec spec;
    spec.method = method;
    spec.exponent = -0.5;
    spec.epsilon = epsilon;
    spec.relative_epsilon = relative_epsilon;
    spec.pseudo_inverse = pseudo_inverse;
    spec.rank_rtol = 0.25;
    if (ask == Ask::kScale) return RootScale(spec, value);
    return RootOfEigenvalue(spec, epsilon, spec.exponent, scale, least, 4, 0)(value);
  }
};

inline constexpr auto kRoot = EigenvalueCase::Ask::kRoot;
inline constexpr auto kScale = EigenvalueCase::Ask::kScale;
inline constexpr EigenvalueCase kEigenvalueCases[] = {
    {kRoot, RootMethod::kEigen, 0, 0, false, 0, 1, 4, 0.5},
    {kRoot, RootMethod::kEigen, 0, 12, false, 0, 1, 4, 0.25},
    {kRoot, RootMethod::kEigen, 0, 4, false, 2, 1, 3, 0.25},  // 4 (3 + 4 / 4) = 16
    {kRoot, RootMethod::kEigen, 1, 4, false, 2, 1, 3, 0.5},   // the root of the scaled matrix: 3 + 4 / 4 = 4
    {kRoot, RootMethod::kEigen, 0, 1, false, 0, -3, -3, 1},   // all eigenvalues are shifted by 3
    {kRoot, RootMethod::kEigen, 0, 0, false, 0, 0, 0, kNotANumber},
    {kRoot, RootMethod::kEigen, 0, 0, true, 0, 0, 1, 0},  // not above the cutoff 0.25 * 4
    {kRoot, RootMethod::kEigen, 0, 0, true, 0, 0, 4, 0.5},
    {kRoot, RootMethod::kEigen, 0, 0, false, -1072, 0, 1, 0x1p+536},  // the unscaled eigenvalue is subnormal
    {kScale, RootMethod::kEigen, 0, 0, false, 0, 0, 1, 1},
    {kScale, RootMethod::kEigen, 0, 0, false, 0, 0, 7, 3},
    {kScale, RootMethod::kEigen, 0, 0, false, 0, 0, 0, 0},
    {kScale, RootMethod::kEigen, 0, 1, false, 0, 0, 1e-300, -899},
    {kScale, RootMethod::kEigen, 1, 0, false, 0, 0, 7, 2},  // even, so that the root of 2^scale is exact
    {kScale, RootMethod::kNewton, 0, 16, false, 0, 0, 1, 5},
    {kScale, RootMethod::kHigherOrder, 0, 16, false, 0, 0, 1, 1},
    {kScale, RootMethod::kHigherOrder, 1, 16, false, 0, 0, 1, 4},
};

// The state of a coupled iteration (core/rules/coupled_scalars.h) after `iterations` iterations. `error` is the error
// after them, and `before` is the error one iteration earlier.
struct CoupledCase {
  RootMethod method;
  int64_t iterations;
  double before;
  double error;
  double expected;  // a CoupledState as a number

  SHAMPOO_HD double Run() const {
    RootSpec spec;
    spec.method = method;
    spec.tolerance = 1e-6;
    spec.max_iterations = 10;
    return static_cast<double>(StateAfter(spec, iterations, before, error));
  }
};

inline constexpr double kRunning = static_cast<double>(CoupledState::kRunning);
inline constexpr CoupledCase kCoupledCases[] = {
    {RootMethod::kNewton, 0, 0, 0.5, kRunning},      {RootMethod::kNewton, 0, 0, 1e-6, 1},
    {RootMethod::kNewton, 3, 0.5, 0.6, kRunning},    {RootMethod::kNewton, 3, 0.01, 0.01, -1},
    {RootMethod::kNewton, 3, 0.01, 1e-7, 1},         {RootMethod::kNewton, 3, 1e-7, 1e-6, 1},
    {RootMethod::kNewton, 10, 0.5, 0.4, 0},          {RootMethod::kNewton, 3, 0.5, kNotANumber, 0},
    {RootMethod::kHigherOrder, 1, 0, 0.5, kRunning}, {RootMethod::kHigherOrder, 2, 0.5, 0.59, kRunning},
    {RootMethod::kHigherOrder, 2, 0.5, 0.61, -1},    {RootMethod::kHigherOrder, 2, 0.5, 0.5, -1},
    {RootMethod::kHigherOrder, 2, 1e-8, 1e-7, -1},   {RootMethod::kHigherOrder, 2, 1e-7, 1e-8, 1},
    {RootMethod::kHigherOrder, 10, 0.5, 0.4, 0},
};

// The number by which trace_scaling divides a matrix whose trace is `trace`. The key epsilon is 2.
struct TraceCase {
  double exponent;
  double trace;
  double expected;

  SHAMPOO_HD double Run() const {
    RootSpec spec;
    spec.trace_scaling = exponent;
    spec.epsilon = 2;
    return TraceDivisor(spec, trace);
  }
};

inline constexpr TraceCase kTraceCases[] = {
    {0, 16, 1}, {0.5, 16, 4}, {1, 16, 16}, {1, 1, 2}, {1, -16, 2}, {0, kInfinite, 1}, {1, kInfinite, kMaxOfF64},
};

// Calls work(name, cases, count) for every table.
template <typename Work>
void ForEachTable(const Work& work) {
  const auto each = [&work](const char* name, const auto& cases) { work(name, cases, std::size(cases)); };
  each("scalars", kScalarCases);
  each("bound numbers", kBoundCases);
  each("growth", kGrowthCases);
  each("moments", kMomentCases);
  each("elements", kElementCases);
  each("fits", kFitCases);
  each("small updates", kSmallCases);
  each("eigenvalues", kEigenvalueCases);
  each("coupled iterations", kCoupledCases);
  each("traces", kTraceCases);
  each("replicas", kReplicaCases);
  each("shards", kShardCases);
  each("steps in eigenbases", kBasisCases);
  each("eigenvalues in eigenbases", kEigenbasisCases);
  each("norms", kNormCases);
  each("norm control", kNormControlCases);
  each("averages", kAverageCases);
  each("muon", kMuonCases);
  each("schedules", kScheduleCases);
  each("rounding", kRoundingCases);
}

// Returns whether a rule returned the expected number. A NaN counts as equal to any other NaN.
constexpr bool IsAsExpected(double result, double expected) {
  return result == expected || (result != result && expected != expected);
}

}  // namespace shampoo

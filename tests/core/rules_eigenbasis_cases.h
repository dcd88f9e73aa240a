// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/rules/basis.h"
#include "tests/core/rules_numbers.h"

// Cases of the rules of methods that work in eigenbases (core/rules/basis.h). tests/core/rules_cases.h describes the
// form of the cases and lists the tables. The expected numbers were computed by hand, or are written as formulas.
namespace shampoo {

// The keys of a method that works in eigenbases.
struct BasisKeys {
  BasisOrder order = BasisOrder::kAfter;
  FirstStep first_step = FirstStep::kSkip;
  int64_t frequency = 3;
  int64_t start = 1;
  int64_t factor_frequency = 1;
  double beta2 = 0.75;
  double shampoo_beta = 0.5;
  double kl_init = 0.1;
  FactorTerm term = FactorTerm::kKl;
  FactorStart factor_start = FactorStart::kZero;
  bool corrects = true;
  bool drops_weighting = false;
  Grafting grafting = Grafting::kAdam;
};

// A step of a block whose method works in eigenbases. In step 9 of its group, the block receives a gradient. `gradient`
// is the number of this gradient, counted from 1 for each block.
struct BasisCase {
  enum class Ask {
    kUpdate,
    kTask,
    kDue,
    kFilterCorrection,
    kMomentCorrection,
    kFactorWeight,
    kBasisCorrection,
    kEigenvalueDecay,
    kGraftingWeight,
    kGraftingCorrection
  };
  Ask ask;
  int64_t gradient;
  double expected;
  BasisKeys keys = {};

  SHAMPOO_HD double Run() const {
    GroupSettings settings;
    settings.method = Method::kKlShampoo;
    settings.beta1 = 0.5;
    settings.grafting_beta2 = 0.5;
    settings.basis_order = keys.order;
    settings.first_step = keys.first_step;
    settings.precondition_frequency = keys.frequency;
    settings.start_preconditioning_step = keys.start;
    settings.factor_update_frequency = keys.factor_frequency;
    settings.beta2 = keys.beta2;
    settings.shampoo_beta = keys.shampoo_beta;
    settings.kl_init = keys.kl_init;
    settings.factor_correction = keys.term;
    settings.factor_start = keys.factor_start;
    settings.use_bias_correction = keys.corrects;
    settings.drop_weighting = keys.drops_weighting;
    settings.grafting = keys.grafting;
    const BasisScalars scalars = MakeBasisScalars(settings, MakeStepScalars(settings, 9), gradient);
    const GraftingScalars of_grafting = MakeGraftingScalars(settings, scalars.update);
    switch (ask) {
      case Ask::kUpdate:
        return static_cast<double>(scalars.update);
      case Ask::kTask:
        return NumberOf(BasisTaskOf(settings, gradient - 1));
      case Ask::kDue:
        return IsBasisDue(settings, gradient) ? 1 : 0;
      case Ask::kFilterCorrection:
        return scalars.filter_correction;
      case Ask::kMomentCorrection:
        return scalars.moment_correction;
      case Ask::kFactorWeight:
        return scalars.factor_weight;
      case Ask::kBasisCorrection:
        return scalars.basis_correction;
      case Ask::kEigenvalueDecay:
        return scalars.eigenvalue_decay;
      case Ask::kGraftingWeight:
        return of_grafting.weight;
      case Ask::kGraftingCorrection:
        return of_grafting.correction;
    }
    return kNoResult;
  }
};

using AskBasis = BasisCase::Ask;
inline constexpr auto kOrderBefore = BasisOrder::kBefore;
inline constexpr auto kFirstStepUse = FirstStep::kUse;
inline constexpr BasisCase kBasisCases[] = {
    {AskBasis::kUpdate, 1, 0},
    {AskBasis::kUpdate, 5, 4},
    {AskBasis::kUpdate, 1, 1, {.first_step = kFirstStepUse}},
    {AskBasis::kUpdate, 1, 1, {.order = kOrderBefore}},
    // After the initialization of the eigenbases, every update whose number is a multiple of 3 refreshes them.
    {AskBasis::kTask, 1, NumberOf(RootTask::kInitialize)},
    {AskBasis::kTask, 2, NumberOf(RootTask::kNone)},
    {AskBasis::kTask, 4, NumberOf(RootTask::kCompute)},
    {AskBasis::kTask, 3, NumberOf(RootTask::kCompute), {.first_step = kFirstStepUse}},
    {AskBasis::kTask, 4, NumberOf(RootTask::kNone), {.order = kOrderBefore, .start = 5}},
    {AskBasis::kTask, 5, NumberOf(RootTask::kInitialize), {.order = kOrderBefore, .start = 5}},
    {AskBasis::kTask, 6, NumberOf(RootTask::kCompute), {.order = kOrderBefore, .start = 5}},
    {AskBasis::kDue, 1, 0, {.frequency = 1}},  // the initialization is not a refresh
    {AskBasis::kDue, 2, 1, {.frequency = 1}},
    {AskBasis::kDue, 1, 1, {.first_step = kFirstStepUse, .frequency = 1}},
    {AskBasis::kDue, 6, 0, {.order = kOrderBefore, .start = 6}},
    {AskBasis::kDue, 9, 1, {.order = kOrderBefore, .start = 6}},
    // Bias corrections depend on the number of updates of the block.
    {AskBasis::kFilterCorrection, 4, 0.875},
    {AskBasis::kFilterCorrection, 4, 0.9375, {.first_step = kFirstStepUse}},
    {AskBasis::kFilterCorrection, 4, 1, {.corrects = false}},
    {AskBasis::kMomentCorrection, 4, 0.578125},
    {AskBasis::kMomentCorrection, 4, 1, {.corrects = false}},
    {AskBasis::kMomentCorrection, 4, 1, {.drops_weighting = true}},
    {AskBasis::kMomentCorrection, 4, 1, {.beta2 = 1}},
    {AskBasis::kFactorWeight, 1, 0.5},
    {AskBasis::kFactorWeight, 1, 1, {.factor_start = FactorStart::kFirst}},
    {AskBasis::kFactorWeight, 2, 0.5, {.factor_start = FactorStart::kFirst}},
    {AskBasis::kFactorWeight, 2, 1, {.drops_weighting = true}},
    {AskBasis::kFactorWeight, 3, 0, {.factor_frequency = 2}},  // update 2 does not change the factor matrices
    {AskBasis::kFactorWeight, 4, 0.5, {.factor_frequency = 2}},
    {AskBasis::kBasisCorrection, 3, 1},
    {AskBasis::kBasisCorrection, 3, 0.875, {.order = kOrderBefore}},
    // Updates 1, 3 and 5 have changed the factor matrices.
    {AskBasis::kBasisCorrection, 6, 0.875, {.order = kOrderBefore, .factor_frequency = 2}},
    {AskBasis::kBasisCorrection, 3, 1, {.order = kOrderBefore, .shampoo_beta = 1}},
    {AskBasis::kBasisCorrection, 3, 1, {.order = kOrderBefore, .corrects = false}},
    {AskBasis::kBasisCorrection, 3, 1, {.order = kOrderBefore, .drops_weighting = true}},
    {AskBasis::kEigenvalueDecay, 1, 1},
    {AskBasis::kEigenvalueDecay, 2, 0.5},
    {AskBasis::kEigenvalueDecay, 2, 1, {.term = FactorTerm::kGradient}},
    // With kl_init=auto (-1), the moving averages of the eigenvalues are bias-corrected. Let b be shampoo_beta. When
    // term number t is added to an average, the decay is 1 - (1 - b) / (1 - b^t) if b is below 1, and 1 - 1 / t if b
    // is 1.
    {AskBasis::kEigenvalueDecay, 2, 0, {.kl_init = -1}},
    {AskBasis::kEigenvalueDecay, 3, 1 - 0.5 / 0.75, {.kl_init = -1}},
    {AskBasis::kEigenvalueDecay, 4, 1 - 0.5 / 0.875, {.kl_init = -1}},
    {AskBasis::kEigenvalueDecay, 4, 1 - 0.5 / 0.75, {.factor_frequency = 2, .kl_init = -1}},
    {AskBasis::kEigenvalueDecay, 2, 0, {.first_step = kFirstStepUse, .kl_init = -1}},
    {AskBasis::kEigenvalueDecay, 5, 0.75, {.shampoo_beta = 1, .kl_init = -1}},
    {AskBasis::kGraftingWeight, 4, 0.5, {.order = kOrderBefore}},
    {AskBasis::kGraftingWeight, 4, 1, {.order = kOrderBefore, .drops_weighting = true}},
    {AskBasis::kGraftingCorrection, 3, 0.875, {.order = kOrderBefore}},
    {AskBasis::kGraftingCorrection, 3, 1, {.order = kOrderBefore, .grafting = Grafting::kRmsprop}},
    {AskBasis::kGraftingCorrection, 3, 1, {.order = kOrderBefore, .drops_weighting = true}},
};

// A call of a rule for eigenvalues or directions in eigenbases, with the arguments a, b and c. The comment on each Ask
// lists these arguments. After a semicolon, the comment lists the values of other inputs. A scale is the inverse square
// root of an eigenvalue.
struct EigenbasisCase {
  enum class Ask {
    kRelativeEpsilon,  // relative_epsilon, whether the dtype is float64
    kAddedEpsilon,     // relative_epsilon, correction, largest V; inverse_exponent is 1/2
    kDirection,        // inverse_exponent, epsilon, V; H is 6, and the correction is 1/4
    kAccurate,         // tolerance, sum of the squares off the diagonal, sum of all squares
    kIdentity,         // whether orthogonal iteration is used, size of the matrix, whether the matrix is negligible
    kFirstEigenvalue,  // mean square of the gradient, number of factor matrices, whether the dtype is float64
    kFirstScale,       // sum of squares of the gradient, number of elements, number of factor matrices
    kFirstTerm,        // kl_init, scale, number of factor matrices
    kBeforeGradients,  // kl_init
    kNextEigenvalue,   // decay, scale, sum of squares; the dim has length 2, and the block has 8 elements
    kHasTerm,          // decay, scale, the new average
    kReplaces,         // kl_init, mean of the new averages, whether HasTerm() is true for one of them
    kCap,              // kl_cap, length of the dim, kl_init; the mean of the eigenvalues is 1/4
    kScale,            // eigenvalue, cap
    kTransported,      // eigenvalue
  };
  Ask ask;
  double a, b, c;
  double expected;

  SHAMPOO_HD double Run() const {
    GroupSettings settings;
    settings.inverse_exponent = 0.5;
    const auto count = [](double number) { return static_cast<int>(number); };
    const auto dtype = [](double is_wide) { return is_wide != 0 ? Dtype::kF64 : Dtype::kF32; };
    switch (ask) {
      case Ask::kRelativeEpsilon:
        settings.relative_epsilon = a;
        return RelativeEpsilon(settings, dtype(b));
      case Ask::kAddedEpsilon:
        settings.relative_epsilon = a;
        return AddedEpsilon(settings, Dtype::kF64, b, c);
      case Ask::kDirection:
        return PowerDirection(a, 0.25, b, 6.0, c);
      case Ask::kAccurate:
        return IsBasisAccurate(a, b, c) ? 1 : 0;
      case Ask::kIdentity:
        return IsBasisIdentity(a != 0, count(b), c != 0) ? 1 : 0;
      case Ask::kFirstEigenvalue:
        return FirstEigenvalue(a, count(b), dtype(c));
      case Ask::kFirstScale:
        return FirstEigenvalueScale(a, count(b), count(c), Dtype::kF64);
      case Ask::kFirstTerm:
        settings.kl_init = a;
        return FirstTermScale(settings, b, count(c));
      case Ask::kBeforeGradients:
        settings.kl_init = a;
        return EigenvalueBeforeGradients(settings);
      case Ask::kNextEigenvalue:
        return NextEigenvalue(a, b, 2, 8, c);
      case Ask::kHasTerm:
        return HasTerm(a, b, c) ? 1 : 0;
      case Ask::kReplaces:
        settings.kl_init = a;
        return ReplacesEigenvalues(settings, b, Dtype::kF32, [this] { return c != 0; }) ? 1 : 0;
      case Ask::kCap:
        settings.kl_cap = a;
        settings.kl_init = c;
        return KlCap(settings, count(b), 0.25);
      case Ask::kScale:
        return KlScale(a, b);
      case Ask::kTransported:
        return TransportedScale(a);
    }
    return kNoResult;
  }
};

using AskEigen = EigenbasisCase::Ask;
inline constexpr EigenbasisCase kEigenbasisCases[] = {
    // relative_epsilon=auto (-1) means 1024 unit roundoffs.
    {AskEigen::kRelativeEpsilon, -1, 0, 0, 0x1p-14},
    {AskEigen::kRelativeEpsilon, -1, 1, 0, 0x1p-43},
    {AskEigen::kRelativeEpsilon, 0, 0, 0, 0},
    {AskEigen::kRelativeEpsilon, 0.25, 1, 0, 0.25},
    {AskEigen::kAddedEpsilon, 0.25, 0.25, 4, 1},
    {AskEigen::kAddedEpsilon, 0, 0.25, 4, 0},
    {AskEigen::kDirection, 0.5, 1, 1, 2},
    {AskEigen::kDirection, 1, 2, 1, 1},
    {AskEigen::kDirection, 0.5, 0, 0, 0},  // the divisor is 0
    {AskEigen::kAccurate, 0.5, 1, 4, 1},
    {AskEigen::kAccurate, 0.5, 1.0625, 4, 0},
    {AskEigen::kAccurate, 0, 0, 0, 1},
    {AskEigen::kIdentity, 0, 1, 0, 1},
    {AskEigen::kIdentity, 0, 2, 0, 0},
    {AskEigen::kIdentity, 0, 2, 1, 1},
    {AskEigen::kIdentity, 1, 1, 1, 0},
    {AskEigen::kFirstEigenvalue, 4, 1, 1, 4},
    {AskEigen::kFirstEigenvalue, 4, 2, 1, 2},
    {AskEigen::kFirstEigenvalue, 0, 2, 1, 0.1},
    {AskEigen::kFirstEigenvalue, 0x1p-140, 2, 1, 0x1p-70},
    {AskEigen::kFirstEigenvalue, 0x1p-140, 2, 0, 0.1},  // negligible in float32
    {AskEigen::kFirstScale, 64, 4, 2, 0.5},
    {AskEigen::kFirstTerm, 0.5, 3, 2, 1},
    {AskEigen::kFirstTerm, -1, 2, 1, 1},
    {AskEigen::kFirstTerm, -1, 2, 2, 4},
    {AskEigen::kFirstTerm, -1, 2, 3, 16},
    {AskEigen::kBeforeGradients, 0.5, 0, 0, 0.5},
    {AskEigen::kBeforeGradients, -1, 0, 0, 0.1},
    {AskEigen::kNextEigenvalue, 0.5, 2, 8, 1.125},  // 0.5 / 2^2 + (1 - 0.5) * 2 / 8 * 8
    {AskEigen::kHasTerm, 0.5, 2, 0.125, 0},
    {AskEigen::kHasTerm, 0.5, 2, 0.25, 1},
    {AskEigen::kReplaces, 0.5, 0, 0, 1},
    {AskEigen::kReplaces, -1, 1, 0, 0},
    {AskEigen::kReplaces, -1, 1, 1, 1},
    {AskEigen::kReplaces, -1, 1e-40, 1, 0},  // a negligible mean
    // kl_cap=auto (-1) means the length of the dim, but at least 10 and at most 4000. With kl_init=auto (-1), this
    // number is divided by the square root of the mean of the eigenvalues.
    {AskEigen::kCap, -1, 9, 0.1, 10},
    {AskEigen::kCap, -1, 11, 0.1, 11},
    {AskEigen::kCap, -1, 4000, 0.1, 4000},
    {AskEigen::kCap, -1, 4001, 0.1, 4000},
    {AskEigen::kCap, -1, 11, -1, 22},
    {AskEigen::kCap, 0, 11, -1, kInfinite},
    {AskEigen::kCap, 2.5, 11, -1, 2.5},
    {AskEigen::kScale, 4, 10, 0, 0.5},
    {AskEigen::kScale, 0.0625, 4, 0, 4},
    {AskEigen::kScale, 0.01, 4, 0, 4},
    {AskEigen::kScale, 0, 4, 0, 4},
    {AskEigen::kScale, -1, 4, 0, 4},
    {AskEigen::kScale, kNotANumber, 4, 0, 4},
    {AskEigen::kTransported, 0x1p-20, 0, 0, 1024},
};

}  // namespace shampoo

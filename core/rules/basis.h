// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/host_device.h"
#include "core/config/settings.h"
#include "core/rules/eigenvalue.h"
#include "core/rules/schedule.h"
#include "core/rules/step_scalars.h"

// The rules of methods that work in the eigenbases of factor matrices: SOAP (arXiv 2409.11321), KL-SOAP and KL-Shampoo
// (arXiv 2509.03378).
//
// Each block counts its own gradients and updates. Normally, a step with a gradient of a block makes one update of the
// block. With basis_order=after and first_step=skip, the first gradient of a block makes no update: it only initializes
// the eigenbases.
//
// The eigenbasis and the eigenvalues of a dim are those that the block stores for the factor matrix of this dim. With
// factor_correction=kl, a step does the following for each dim k. It whitens the gradient along all dims except k, and
// then adds the product of the whitened gradient with itself to factor matrix k. Whitening along a dim expresses the
// gradient in the eigenbasis of the dim, and divides it by the square roots of the eigenvalues of the dim.
namespace shampoo {

// Returns whether the first gradient of a block only initializes the block.
constexpr bool SkipsFirst(const GroupSettings& settings) {
  return settings.basis_order == BasisOrder::kAfter && settings.first_step == FirstStep::kSkip;
}

// Returns the number of updates of a block that has had `gradients` gradients.
constexpr int64_t UpdatesOf(const GroupSettings& settings, int64_t gradients) {
  return SkipsFirst(settings) ? gradients - 1 : gradients;
}

// Returns whether a block's gradient number `gradient`, counted from 1, refreshes the eigenbases of the block. The
// initialization of the eigenbases does not count as a refresh. `first` is the first update that may refresh them.
constexpr bool IsBasisDue(const GroupSettings& settings, int64_t gradient) {
  const int64_t update = UpdatesOf(settings, gradient);
  const int64_t first = settings.basis_order == BasisOrder::kAfter ? 1 : settings.start_preconditioning_step + 1;
  return update >= first && update % settings.precondition_frequency == 0;
}

// Returns whether a block's gradient number `gradient` determines the first eigenbases of the block.
constexpr bool IsFirstBasis(const GroupSettings& settings, int64_t gradient) {
  if (settings.basis_order == BasisOrder::kAfter) return gradient == 1;
  return UpdatesOf(settings, gradient) == settings.start_preconditioning_step;
}

// Returns what a step does with the eigenbases of a block that has had `gradients` gradients before the step.
constexpr RootTask BasisTaskOf(const GroupSettings& settings, int64_t gradients) {
  if (IsFirstBasis(settings, gradients + 1)) return RootTask::kInitialize;
  return IsBasisDue(settings, gradients + 1) ? RootTask::kCompute : RootTask::kNone;
}

// The properties of a block that determine its schedule, in addition to the schedule of its group.
struct ScheduledBlock {
  bool is_owned;           // whether this rank is the owner; only the owner has the states of the block
  bool is_rotated;         // the block has eigenbases
  bool is_preconditioned;  // the block has factor matrices
  int64_t phase;           // Block::phase
  int64_t gradient_count;  // the state gradient_count; 0 if the block has no such state
  int64_t snapshot_step;   // the state snapshot_step; see RootTaskOf
};

// Returns the schedule of a block in a step. group: the schedule of the block's group in the same step.
constexpr RootSchedule ScheduleOf(const GroupSettings& settings, const GroupSchedule& group,
                                  const ScheduledBlock& block) {
  if (UsesEigenbasis(settings.method)) {
    if (!block.is_owned || !block.is_rotated) return {};
    return {BasisTaskOf(settings, block.gradient_count), DirectionRule::kPrecondition};
  }
  if (IsSteepestDescent(settings.method)) return {RootTask::kNone, RuleWithoutRoots(group)};
  return BlockScheduleOf(group, block.phase, block.is_preconditioned, block.snapshot_step);
}

// Sets the bias corrections for a block's update number `update`, counted from 1.
SHAMPOO_HD inline void CorrectBias(const GroupSettings& settings, int64_t update, StepScalars* scalars) {
  scalars->filter_correction = settings.use_bias_correction ? BiasCorrection(settings.beta1, update) : 1;
  const bool corrects_moment = settings.use_bias_correction && !settings.drop_weighting && settings.beta2 < 1;
  scalars->moment_correction = corrects_moment ? BiasCorrection(settings.beta2, update) : 1;
}

// The scalars of grafting with SOAP. Grafting with SOAP requires basis_order=before. A step computes
// V <- decay V + weight G G, and the direction of the grafting method is H / (sqrt(V / correction) + epsilon).
struct GraftingScalars {
  double decay = 0;
  double weight = 0;
  double correction = 1;
  double epsilon = 0;
};

// update: the number of the block's update.
SHAMPOO_HD inline GraftingScalars MakeGraftingScalars(const GroupSettings& settings, int64_t update) {
  GraftingScalars scalars;
  scalars.decay = settings.grafting_beta2;
  scalars.weight = settings.drop_weighting ? 1 : WeightFor(scalars.decay);
  const bool corrects = settings.grafting == Grafting::kAdam && !settings.drop_weighting && scalars.decay < 1;
  if (corrects) scalars.correction = BiasCorrection(scalars.decay, update);
  scalars.epsilon = settings.grafting_epsilon;
  return scalars;
}

// Returns the number by which a refresh divides the factor matrices. update: the number of the update with the refresh.
// With basis_order=after, the divisor is 1, because the scale of the matrices has no effect on the new bases.
SHAMPOO_HD inline double BasisCorrection(const GroupSettings& settings, int64_t update) {
  const bool corrects = settings.basis_order == BasisOrder::kBefore && settings.use_bias_correction &&
                        !settings.drop_weighting && settings.shampoo_beta < 1;
  return corrects ? BiasCorrection(settings.shampoo_beta, FactorUpdates(settings, update)) : 1;
}

// Returns the weight that the first gradient of a block gets in the factor matrices of the block. Call it only with
// basis_order=after.
constexpr double FirstFactorWeight(const GroupSettings& settings, const StepScalars& scalars) {
  return settings.factor_start == FactorStart::kFirst ? 1 : scalars.factor_weight;
}

// Returns the relative epsilon r: a step adds r * max(V)^inverse_exponent to each element of V^inverse_exponent. Here,
// V is already bias-corrected.
constexpr double RelativeEpsilon(const GroupSettings& settings, Dtype computation) {
  constexpr double kRoundoffs = 1024;
  return settings.relative_epsilon >= 0 ? settings.relative_epsilon : kRoundoffs / 2 * MachineEpsilon(computation);
}

// Returns the number that the relative epsilon adds to epsilon. correction: the bias correction of V. largest: the
// largest element of V after the step has updated V.
SHAMPOO_HD inline double AddedEpsilon(const GroupSettings& settings, Dtype computation, double correction,
                                      double largest) {
  return RelativeEpsilon(settings, computation) * std::pow(largest / correction, settings.inverse_exponent);
}

// Returns an element of the direction, H / ((V / correction)^inverse_exponent + epsilon), or 0 if the divisor is 0.
template <typename Real>
SHAMPOO_HD Real PowerDirection(double inverse_exponent, double correction, double epsilon, Real h, Real v) {
  const double divisor = std::pow(static_cast<double>(v) / correction, inverse_exponent) + epsilon;
  return divisor == 0 ? Real{0} : static_cast<Real>(static_cast<double>(h) / divisor);
}

// Returns whether a symmetric matrix is nearly diagonal in a basis. tolerance: the key basis_tolerance.
// off_diagonal_square: the sum of the squares of the matrix's off-diagonal elements in that basis. square: the sum of
// the squares of all elements of the matrix.
SHAMPOO_HD inline bool IsBasisAccurate(double tolerance, double off_diagonal_square, double square) {
  return std::sqrt(off_diagonal_square) <= tolerance * std::sqrt(square);
}

// Returns whether the basis of a d x d matrix is the identity, so that the basis need not be computed. iterates:
// whether the basis would be computed by orthogonal iteration, which starts from the previous basis. is_negligible:
// whether IsNegligible() is true for the matrix.
constexpr bool IsBasisIdentity(bool iterates, int64_t d, bool is_negligible) {
  return !iterates && (d == 1 || is_negligible);
}

// Returns the weight of one element of a block in a mean over all dims except one dim, whose size is d.
constexpr double MeanWeight(int64_t d, int64_t elements) {
  return static_cast<double>(d) / static_cast<double>(elements);
}

// Returns whether the setting is kl_init=auto. With it, the first gradient sets the scale of the eigenvalues for the
// first whitening. The moving averages of the eigenvalues are bias-corrected, so that this scale has no weight in them.
//
// A step counts a gradient of which all elements are 0, but does not add it to these averages, because the averages
// would become smaller and make the next direction too large. As long as all factor matrices are negligible
// (IsNegligible), each gradient sets the scale again. The scale is therefore right when a block gets its first gradient
// that is not zero.
constexpr bool StartsFromGradient(const GroupSettings& settings) { return settings.kl_init < 0; }

// The value of all eigenvalues of a block before its first gradient that is not zero, with kl_init=auto.
constexpr double kEigenvalueOfZeros = 0.1;

// Returns the eigenvalues of a block before its first gradient.
constexpr double EigenvalueBeforeGradients(const GroupSettings& settings) {
  return StartsFromGradient(settings) ? kEigenvalueOfZeros : settings.kl_init;
}

// Returns the value to which, with kl_init=auto, a gradient with this mean square sets all eigenvalues. With this
// value, the product of one eigenvalue from each factor matrix equals the mean square. factors: the number of factor
// matrices. A gradient whose mean square is negligible (IsNegligible) counts as zero.
SHAMPOO_HD inline double FirstEigenvalue(double mean_square, int factors, Dtype computation) {
  return IsNegligible(mean_square, computation) ? kEigenvalueOfZeros : std::pow(mean_square, 1.0 / factors);
}

// Returns the inverse square root of FirstEigenvalue(). square: the sum of the squares of the gradient.
SHAMPOO_HD inline double FirstEigenvalueScale(double square, int64_t elements, int factors, Dtype computation) {
  const double mean_square = square / static_cast<double>(elements);
  return 1 / std::sqrt(FirstEigenvalue(mean_square, factors, computation));
}

// Returns the number by which the first gradient's term in a factor matrix is multiplied. With kl_init=auto, the
// multiplied term equals that of a gradient that was whitened with the first eigenvalues. Otherwise, the number is 1.
// scale: the inverse square root of the first eigenvalues. factors: the number of factor matrices.
SHAMPOO_HD inline double FirstTermScale(const GroupSettings& settings, double scale, int factors) {
  return StartsFromGradient(settings) ? std::pow(scale, 2.0 * (factors - 1)) : 1;
}

// Returns the decay of the moving averages of eigenvalues in the update with number `update`. Call it only for updates
// that follow the block's first gradient.
SHAMPOO_HD inline double EigenvalueDecay(const GroupSettings& settings, int64_t update) {
  const double decay = settings.shampoo_beta;
  if (!StartsFromGradient(settings)) return decay;
  const int64_t t = FactorUpdates(settings, update) - (SkipsFirst(settings) ? 0 : 1);
  // With this decay, an update turns the bias-corrected average of t - 1 terms into that of t terms.
  return 1 - (decay < 1 ? (1 - decay) / BiasCorrection(decay, t) : 1 / static_cast<double>(t));
}

// Returns the part of an eigenvalue that remains in the moving average: decay times the eigenvalue. scale: the inverse
// square root of the eigenvalue.
SHAMPOO_HD inline double KeptEigenvalue(double decay, double scale) { return decay / (scale * scale); }

// Returns the new moving average of an eigenvalue of a dim of size d. square: the sum of the squares of the whitened
// gradient along the eigenvector. elements: the number of elements of the block.
SHAMPOO_HD inline double NextEigenvalue(double decay, double scale, int64_t d, int64_t elements, double square) {
  return KeptEigenvalue(decay, scale) + (1 - decay) * MeanWeight(d, elements) * square;
}

// Returns whether a gradient has contributed to `next`, the new moving average of an eigenvalue.
SHAMPOO_HD inline bool HasTerm(double decay, double scale, double next) { return next != KeptEigenvalue(decay, scale); }

// Returns whether the new moving averages replace the eigenvalues of a dim.
//   mean        the mean of the new averages
//   has_term()  returns whether HasTerm() is true for any of the new averages
SHAMPOO_CALLS_BACK template <typename HasAnyTerm>
SHAMPOO_HD bool ReplacesEigenvalues(const GroupSettings& settings, double mean, Dtype computation,
                                    const HasAnyTerm& has_term) {
  return !StartsFromGradient(settings) || (!IsNegligible(mean, computation) && has_term());
}

// Returns the cap: the largest inverse square root that an eigenvalue of a dim of size d may have. Returns infinity if
// there is no limit. mean: the mean of the eigenvalues of the dim, above 0. With kl_init=auto and kl_cap=auto, the
// cap is relative to 1 / sqrt(mean).
SHAMPOO_HD inline double KlCap(const GroupSettings& settings, int64_t d, double mean) {
  if (settings.kl_cap > 0) return settings.kl_cap;
  if (settings.kl_cap == 0) return __builtin_inf();
  const double cap = d < 10 ? 10 : d > 4000 ? 4000 : static_cast<double>(d);
  return StartsFromGradient(settings) ? cap / std::sqrt(mean) : cap;
}

// Returns the new inverse square root of an eigenvalue: 1 / sqrt(eigenvalue), at most the cap.
SHAMPOO_HD inline double KlScale(double eigenvalue, double cap) {
  const double scale = eigenvalue > 0 ? 1 / std::sqrt(eigenvalue) : cap;
  return scale < cap ? scale : cap;
}

// Returns the term that an eigenvalue of the old basis adds to an eigenvalue of the new basis. square: the square of
// the element of Q_old^T Q_new in the row of the old eigenvalue and the column of the new one. scale: the inverse
// square root of the old eigenvalue.
SHAMPOO_HD inline double TransportedTerm(double square, double scale) { return square / (scale * scale); }

// Returns the inverse square root of an eigenvalue of the new basis. No cap is needed: each new eigenvalue is a
// weighted mean of old eigenvalues, so its inverse square root does not exceed the cap that limits the old ones.
SHAMPOO_HD inline double TransportedScale(double eigenvalue) { return KlScale(eigenvalue, __builtin_inf()); }

// The scalars of one step of a block that has eigenbases.
struct BasisScalars : StepScalars {
  int64_t update = 0;           // the number of the update; 0: the gradient only initializes the block
  bool is_first = false;        // basis_order=after, and the gradient is the block's first
  double eigenvalue_decay = 1;  // the decay of the moving averages of eigenvalues
  double basis_correction = 1;  // the divisor of the factor matrices in a refresh
};

// Returns the scalars of one step of a block. step: the scalars of the group's step. gradient: the number of the
// block's gradient in this step, counted from 1.
SHAMPOO_HD inline BasisScalars MakeBasisScalars(const GroupSettings& settings, const StepScalars& step,
                                                int64_t gradient) {
  BasisScalars scalars;
  static_cast<StepScalars&>(scalars) = step;
  scalars.update = UpdatesOf(settings, gradient);
  scalars.is_first = settings.basis_order == BasisOrder::kAfter && gradient == 1;
  if (scalars.update > 0) {
    CorrectBias(settings, scalars.update, &scalars);
    if (!UpdatesFactors(settings, scalars.update)) KeepFactors(&scalars);
  }
  if (scalars.is_first) {
    scalars.factor_weight = FirstFactorWeight(settings, scalars);
  } else if (settings.factor_correction == FactorTerm::kKl) {
    scalars.eigenvalue_decay = EigenvalueDecay(settings, scalars.update);
  }
  scalars.basis_correction = BasisCorrection(settings, scalars.update);
  return scalars;
}

}  // namespace shampoo

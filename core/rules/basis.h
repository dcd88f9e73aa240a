// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "core/config/settings.h"
#include "core/rules/eigenvalue.h"
#include "core/rules/schedule.h"
#include "core/rules/step_scalars.h"

// The rules of methods that work in the eigenbases of factor matrices: SOAP (arXiv 2409.11321), KL-SOAP and KL-Shampoo
// (arXiv 2509.03378).
//
// Each block counts its own gradients. An update is a gradient that changes the parameter. With basis_order after and
// first_step skip, the first gradient is not an update: it only initializes the eigenbases.
namespace shampoo {

// Returns whether the first gradient of a block only initializes the block.
constexpr bool SkipsFirst(const GroupSettings& settings) {
  return settings.basis_order == BasisOrder::kAfter && settings.first_step == FirstStep::kSkip;
}

// Returns the number of updates of a block that has had this number of gradients.
constexpr int64_t UpdatesOf(const GroupSettings& settings, int64_t gradients) {
  return SkipsFirst(settings) ? gradients - 1 : gradients;
}

// Returns whether the eigenbases are refreshed in the step of the gradient with this number, counted from 1. Their
// initialization does not count as a refresh.
constexpr bool IsBasisDue(const GroupSettings& settings, int64_t gradient) {
  const int64_t update = UpdatesOf(settings, gradient);
  const int64_t first =
      settings.basis_order == BasisOrder::kAfter ? 1 : settings.start_preconditioning_step + 1;  // after initialization
  return update >= first && update % settings.precondition_frequency == 0;
}

// Returns whether the gradient with this number determines the first eigenbases of a block.
constexpr bool IsFirstBasis(const GroupSettings& settings, int64_t gradient) {
  if (settings.basis_order == BasisOrder::kAfter) return gradient == 1;
  return UpdatesOf(settings, gradient) == settings.start_preconditioning_step;
}

// Returns the task of a block in the step after `gradients` gradients.
constexpr RootTask BasisTaskOf(const GroupSettings& settings, int64_t gradients) {
  if (IsFirstBasis(settings, gradients + 1)) return RootTask::kInitialize;
  return IsBasisDue(settings, gradients + 1) ? RootTask::kCompute : RootTask::kNone;
}

// Sets the bias corrections of a block in its update with this number, which is at least 1.
SHAMPOO_HD inline void CorrectBias(const GroupSettings& settings, int64_t update, StepScalars* scalars) {
  scalars->filter_correction = settings.use_bias_correction ? BiasCorrection(settings.beta1, update) : 1;
  const bool corrects_moment = settings.use_bias_correction && !settings.drop_weighting && settings.beta2 < 1;
  scalars->moment_correction = corrects_moment ? BiasCorrection(settings.beta2, update) : 1;
}

// The scalars of SOAP's grafting method, which requires basis_order before. V <- decay V + weight G G, and the
// direction of the grafting method is H / (sqrt(V / correction) + epsilon).
struct GraftingScalars {
  double decay = 0;
  double weight = 0;
  double correction = 1;
  double epsilon = 0;
};

SHAMPOO_HD inline GraftingScalars MakeGraftingScalars(const GroupSettings& settings, int64_t update) {
  GraftingScalars scalars;
  scalars.decay = settings.grafting_beta2;
  scalars.weight = settings.drop_weighting ? 1 : WeightFor(scalars.decay);
  const bool corrects = settings.grafting == Grafting::kAdam && !settings.drop_weighting && scalars.decay < 1;
  if (corrects) scalars.correction = BiasCorrection(scalars.decay, update);
  scalars.epsilon = settings.grafting_epsilon;
  return scalars;
}

// Returns the divisor of the factor matrices in the refresh of this update. It is 1 with basis_order after, because the
// bases then do not depend on the scale of the matrices.
SHAMPOO_HD inline double BasisCorrection(const GroupSettings& settings, int64_t update) {
  const bool corrects = settings.basis_order == BasisOrder::kBefore && settings.use_bias_correction &&
                        !settings.drop_weighting && settings.shampoo_beta < 1;
  return corrects ? BiasCorrection(settings.shampoo_beta, FactorUpdates(settings, update)) : 1;
}

// Returns the weight that the first gradient of a block gets in its factor matrices, with basis_order after.
constexpr double FirstFactorWeight(const GroupSettings& settings, const StepScalars& scalars) {
  return settings.factor_start == FactorStart::kFirst ? 1 : scalars.factor_weight;
}

// Returns the multiple of sqrt(max V) that is added to sqrt(V).
constexpr double RelativeEpsilon(const GroupSettings& settings, Dtype computation) {
  constexpr double kRoundoffs = 1024;
  return settings.relative_epsilon >= 0 ? settings.relative_epsilon : kRoundoffs / 2 * MachineEpsilon(computation);
}

// Returns whether the eigenvalues start from the gradients (kl_init auto): the first gradient gives the scale of the
// first whitening, and the moving averages of the eigenvalues are bias-corrected, so that this scale has no weight in
// them.
//
// Gradients of zeros count, but change no eigenvalue, because averages with zeros would make the next direction too
// large. As long as all factor matrices are negligible, each gradient sets the eigenvalues again, so that they have the
// right scale when a block gets its first gradient that is not zero.
constexpr bool StartsFromGradient(const GroupSettings& settings) { return settings.kl_init < 0; }

// The eigenvalues with kl_init auto before the first gradient that is not zero.
constexpr double kEigenvalueOfZeros = 0.1;

// Returns the eigenvalues of a block before its first gradient.
constexpr double EigenvalueBeforeGradients(const GroupSettings& settings) {
  return StartsFromGradient(settings) ? kEigenvalueOfZeros : settings.kl_init;
}

// Returns the eigenvalues that a gradient with this mean square sets with kl_init auto. They are equal, and the product
// of `factors` of them, one for each dim that has a factor matrix, is the mean square. A negligible mean square counts
// as 0.
SHAMPOO_HD inline double FirstEigenvalue(double mean_square, int factors, Dtype computation) {
  return IsNegligible(mean_square, computation) ? kEigenvalueOfZeros : std::pow(mean_square, 1.0 / factors);
}

// Returns by what the term of the first gradient in a factor matrix is multiplied, so that it has the scale of a term
// that is whitened by the first eigenvalues. scale: their inverse square root. factors: number of factor matrices.
SHAMPOO_HD inline double FirstTermScale(const GroupSettings& settings, double scale, int factors) {
  return StartsFromGradient(settings) ? std::pow(scale, 2.0 * (factors - 1)) : 1;
}

// Returns the decay of the eigenvalues in an update after the first gradient.
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

// Returns the largest inverse square root that an eigenvalue of a dim of size d may have; infinity: there is no limit.
// mean: the mean of the eigenvalues of the dim, above 0. With kl_init auto, an automatic cap is relative to it.
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

}  // namespace shampoo

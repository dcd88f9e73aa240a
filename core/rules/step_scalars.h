// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/host_device.h"
#include "core/config/settings.h"

namespace shampoo {

// The scalars of one step of one group, in the order in which a step uses them. Source: Distributed Shampoo
// (arXiv 2309.06497), algorithm 2, with the options of the reference implementation. The moment_ fields are for
// grafting or, if GraftsDirection() is false, for the second moment of the method itself.
struct StepScalars {
  int64_t t = 0;  // the group's step, counted from 1

  // G <- gradient_scale * gradient + coupled_decay * W
  double gradient_scale = 1;
  double coupled_decay = 0;

  // F_k <- factor_decay * F_k + factor_weight * C_k, where C_k is the product of G with itself, contracted over all
  // dims except k, or the method's own form of this product
  double factor_decay = 0;
  double factor_weight = 0;
  bool updates_factors = true;  // false: factor_decay is 1 and factor_weight is 0 (factor_update_frequency)

  // V <- moment_decay * V + moment_weight * G * G, if there is a V
  double moment_decay = 0;
  double moment_weight = 0;

  // X_k <- (F_k / factor_correction + e I)^(-exponent_multiplier / Block::root), if a refresh of the block is due.
  // RootSpec (core/rules/root_spec.h) defines e and the exponent.
  double factor_correction = 1;  // for step t; roots of a snapshot use the correction for the snapshot's step

  // H = (ahead_decay * E + (1 - ahead_decay) * G) / filter_correction, then
  // E <- filter_decay * E + (1 - filter_decay) * G. If filter_decay is 0, H = G.
  double filter_decay = 0;
  double ahead_decay = 0;
  double filter_correction = 1;

  // D = H / (sqrt(V / moment_correction) + moment_epsilon), or 0 where this divisor is 0. If there is no V, D = H.
  // The block's schedule determines how P is computed (DirectionRule). With kPrecondition, grafting then computes
  // P <- P * |D| / (|P| + norm_guard).
  double moment_correction = 1;
  double moment_epsilon = 0;
  double norm_guard = 0;

  // P <- P + decoupled_decay * W
  double decoupled_decay = 0;

  // If there is an M: P <- momentum_weight * P, then M <- momentum * M + P, then P <- M or, with Nesterov momentum,
  // P <- P + momentum * M
  double momentum = 0;
  double momentum_weight = 1;

  // U = -lr P - shrinkage * W. With output=updates, the output is U, otherwise W + U.
  double lr = 0;
  double shrinkage = 0;

  Grafting grafting = Grafting::kNone;
  Output output = Output::kParameters;
  bool nesterov = false;
  bool cautious = false;  // see Decays (core/base/kernels/element.h)

  // Returns whether weight decay is applied to the direction or the update. Coupled decay does not count, because it is
  // applied to G.
  constexpr bool decays_parameter() const { return decoupled_decay != 0 || shrinkage != 0; }
};

// Returns the divisor that corrects a moving average with this decay for its start from zero, after t steps.
SHAMPOO_HD inline double BiasCorrection(double decay, int64_t t) { return 1 - std::pow(decay, static_cast<double>(t)); }

// Returns beta3, the weight of the old E in H. Nesterov's form of the average is H = beta1 E + (1 - beta1) G with the
// new E. In terms of the old E, this form has beta3 = beta1^2.
constexpr double Beta3Of(const GroupSettings& settings) {
  if (settings.beta3 >= 0) return settings.beta3;
  const bool looks_ahead = settings.method == Method::kMuon && settings.use_nesterov;
  return looks_ahead ? settings.beta1 * settings.beta1 : settings.beta1;
}

// Returns the divisor that corrects beta3 E + (1 - beta3) G in step t, where E is the average after t - 1 steps. The
// correction is necessary because E started from zero.
SHAMPOO_HD inline double FilterCorrection(double beta1, double beta3, int64_t t) {
  return beta1 == beta3 ? BiasCorrection(beta1, t) : 1 - beta3 * std::pow(beta1, static_cast<double>(t - 1));
}

// Returns whether step t updates the factor matrices.
constexpr bool UpdatesFactors(const GroupSettings& settings, int64_t t) {
  return (t - 1) % settings.factor_update_frequency == 0;
}
// Returns how many of the steps 1 to t update the factor matrices.
constexpr int64_t FactorUpdates(const GroupSettings& settings, int64_t t) {
  return t < 1 ? 0 : 1 + (t - 1) / settings.factor_update_frequency;
}

// Returns the divisor of the factor matrices in step t. Without a bias correction, the divisor is 1.
SHAMPOO_HD inline double FactorCorrection(const GroupSettings& settings, int64_t t) {
  const bool corrects = settings.use_bias_correction && !settings.drop_weighting && settings.beta2 < 1;
  return corrects ? BiasCorrection(settings.beta2, FactorUpdates(settings, t)) : 1;
}

// Returns the weight of the new term in a recurrence with this decay. A decay of 1 means a plain sum, such as Adagrad's
// second moment; any other decay means an average.
constexpr double WeightFor(double decay) { return decay == 1 ? 1 : 1 - decay; }

// Returns the number that is added to |P| before grafting divides by the sum. The reference implementation adds 1e-16.
// With a relative epsilon, |P| decreases when gradients grow, and the scale of the gradients must have no influence.
// The number is therefore so small that it only prevents a division by zero.
constexpr double NormGuard(double root_relative_epsilon) { return root_relative_epsilon > 0 ? 1e-37 : 1e-16; }

// Makes a step leave the factor matrices as they are.
constexpr void KeepFactors(StepScalars* scalars) {
  scalars->factor_decay = 1;
  scalars->factor_weight = 0;
  scalars->updates_factors = false;
}

// Returns the scalars of step t of a group.
SHAMPOO_HD inline StepScalars MakeStepScalars(const GroupSettings& settings, int64_t t) {
  StepScalars scalars;
  scalars.t = t;
  const bool grafts = GraftsDirection(settings.method);  // otherwise V belongs to the method itself
  const double moment_decay = grafts ? settings.grafting_beta2 : settings.beta2;
  scalars.gradient_scale = settings.gradient_scale;
  scalars.factor_decay = UsesEigenbasis(settings.method) ? settings.shampoo_beta : settings.beta2;
  scalars.factor_weight = settings.drop_weighting ? 1 : WeightFor(scalars.factor_decay);
  if (!UsesEigenbasis(settings.method) && !UpdatesFactors(settings, t)) KeepFactors(&scalars);
  scalars.moment_decay = moment_decay;
  scalars.moment_weight = settings.drop_weighting ? 1 : WeightFor(moment_decay);
  scalars.factor_correction = FactorCorrection(settings, t);
  scalars.filter_decay = settings.beta1;
  scalars.ahead_decay = Beta3Of(settings);
  if (settings.use_bias_correction)
    scalars.filter_correction = FilterCorrection(settings.beta1, scalars.ahead_decay, t);
  // Grafting corrects the bias of Adam's second moment even if use_bias_correction is false.
  const bool corrects_moment = (grafts || settings.use_bias_correction) && !settings.drop_weighting;
  if (settings.grafting == Grafting::kAdam && moment_decay < 1 && corrects_moment) {
    scalars.moment_correction = BiasCorrection(moment_decay, t);
  }
  scalars.moment_epsilon = grafts ? settings.grafting_epsilon : settings.epsilon;
  scalars.norm_guard = NormGuard(settings.root_relative_epsilon);
  switch (settings.weight_decay_type) {
    case WeightDecayType::kCoupled:
      scalars.coupled_decay = settings.weight_decay;
      break;
    case WeightDecayType::kDecoupled:
      scalars.decoupled_decay = settings.weight_decay;
      break;
    case WeightDecayType::kPalm:
      scalars.decoupled_decay = settings.lr * settings.weight_decay;
      break;
    case WeightDecayType::kCorrected:
      scalars.decoupled_decay = settings.weight_decay * (settings.lr / settings.peak_lr);
      break;
    case WeightDecayType::kIndependentPeak:
      scalars.decoupled_decay = settings.weight_decay / settings.peak_lr;
      break;
    case WeightDecayType::kIndependent:
      scalars.shrinkage = settings.weight_decay;
      break;
    case WeightDecayType::kDecoupledAfter:
      // U = -lr P, then U <- U - lr weight_decay (W + U)
      scalars.shrinkage = settings.lr * settings.weight_decay;
      break;
  }
  scalars.momentum = settings.momentum;
  scalars.momentum_weight = 1 - settings.momentum_dampening;
  scalars.lr = settings.lr;
  if (settings.weight_decay_type == WeightDecayType::kDecoupledAfter) scalars.lr *= 1 - scalars.shrinkage;
  scalars.grafting = settings.grafting;
  scalars.output = settings.output;
  scalars.nesterov = settings.use_nesterov;
  scalars.cautious = settings.cautious_decay;
  return scalars;
}

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/rules/step_program.h"

#include <cmath>

namespace shampoo {

double FactorCorrection(const Settings& settings, int64_t t) {
  if (!settings.use_bias_correction || settings.beta2 >= 1) return 1;
  return 1 - std::pow(settings.beta2, static_cast<double>(t));
}

StepProgram MakeProgram(const Settings& settings, int64_t t) {
  const double steps = static_cast<double>(t);
  StepProgram program;
  program.t = t;

  program.gradient_scale = settings.gradient_scale;
  const bool coupled = settings.weight_decay_type == WeightDecayType::kCoupled;
  program.coupled_decay = coupled ? settings.weight_decay : 0;

  // A decay of 1 means a plain sum; otherwise an average. Adagrad's second moment is such a sum.
  program.factor_keep = settings.beta2;
  program.factor_add = settings.beta2 == 1 ? 1 : 1 - settings.beta2;
  program.moment_keep = settings.grafting_beta2;
  program.moment_add = settings.grafting_beta2 == 1 ? 1 : 1 - settings.grafting_beta2;

  program.factor_correction = FactorCorrection(settings, t);
  program.settings = &settings;

  program.filter_keep = settings.beta1;
  if (settings.use_bias_correction) program.filter_correction = 1 - std::pow(settings.beta1, steps);

  program.grafting = settings.grafting;
  if (settings.grafting == Grafting::kAdam && settings.grafting_beta2 < 1) {
    program.moment_correction = 1 - std::pow(settings.grafting_beta2, steps);
  }
  program.grafting_epsilon = settings.grafting_epsilon;
  program.norm_guard = NormGuard(settings.root_relative_epsilon);
  program.decoupled_decay = coupled ? 0 : settings.weight_decay;
  program.momentum = settings.momentum;
  program.nesterov = settings.use_nesterov;
  program.lr = settings.lr;
  program.output = settings.output;
  return program;
}

GroupSchedule MakeSchedule(const Settings& settings, int64_t t) {
  return MakeGroupSchedule(RefreshKeysOf(settings), t, settings.grafting, settings.initial_inverse);
}

}  // namespace shampoo

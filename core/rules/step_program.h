// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/config/settings.h"
#include "core/rules/schedule.h"

namespace shampoo {

// One step of one group with every scalar worked out: the list that a backend carries out for each block, in this
// order. Source: Distributed Shampoo (arXiv 2309.06497), algorithm 2 with the options of its release.
struct StepProgram {
  int64_t t = 0;  // the group's step, counted from 1

  // G <- gradient_scale * gradient + coupled_decay * W
  double gradient_scale = 1;
  double coupled_decay = 0;

  // F_k <- factor_keep * F_k + factor_add * C_k
  double factor_keep = 0;
  double factor_add = 0;

  // V <- moment_keep * V + moment_add * G * G, where there is a V
  double moment_keep = 0;
  double moment_add = 0;

  // X_k <- (F_k / factor_correction + epsilon I)^(-exponent_multiplier / root), where the block's schedule says so
  double factor_correction = 1;        // of step t; of a snapshot that of its own step
  const Settings* settings = nullptr;  // the group's: by which rules roots are computed

  // E <- filter_keep * E + (1 - filter_keep) * G and H = E / filter_correction; H = G if filter_keep is 0
  double filter_keep = 0;
  double filter_correction = 1;

  // P by the rule of the block's schedule; with kPrecondition and grafting P <- P * |D| / (|P| + norm_guard), D = H or
  // H / (sqrt(V / moment_correction) + eps)
  Grafting grafting = Grafting::kNone;
  double moment_correction = 1;
  double grafting_epsilon = 0;
  double norm_guard = 0;

  // P <- P + decoupled_decay * W
  double decoupled_decay = 0;

  // M <- momentum * M + P; P <- P + momentum * M (Nesterov) or M
  double momentum = 0;
  bool nesterov = false;

  // U = -lr P; out = W + U, or U
  double lr = 0;
  Output output = Output::kParameters;
};

// Added to |P| before it divides. The reference adds 1e-16. With a relative epsilon the scale of gradients is to have
// no influence, and |P| falls as they grow: only a norm of zero is kept from dividing.
constexpr double NormGuard(double root_relative_epsilon) { return root_relative_epsilon > 0 ? 1e-37 : 1e-16; }

// What divides the factor matrices of step t: 1 without a bias correction of them.
double FactorCorrection(const Settings& settings, int64_t t);

StepProgram MakeProgram(const Settings& settings, int64_t t);

// The schedule of the same step.
GroupSchedule MakeSchedule(const Settings& settings, int64_t t);

}  // namespace shampoo

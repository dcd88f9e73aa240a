// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "core/base/host_device.h"
#include "core/config/settings.h"

// Averages of iterates (the key averaging) and of the parameter (weight_ema).
//
// With averaging, the parameter W is average_train X + (1 - average_train) Z, where X is the average and Z the newest
// iterate. Stored is Z - W, and for weight_ema the average minus W: both are 0 at the start, and bfloat16 is precise
// enough for them. Weight decay shrinks Z and leaves W as it is. Sources: Schedule-Free (arXiv 2405.15682), GPA (arXiv
// 2512.17131).
namespace shampoo {

// The coefficients of a step of averaging. With Z - W after weight decay of Z:
//   W <- W + pull (Z - W) - move lr D,  Z <- Z - lr D
struct AveragingStep {
  double pull = 0;
  double move = 1;
};

// Returns the weight of an iterate of schedule_free.
SHAMPOO_HD inline double WeightOfIterate(const GroupSettings& settings, double lr) {
  return std::pow(lr, settings.average_lr_power);
}

// lr_sum: the sum of the weights of earlier iterates, with schedule_free.
SHAMPOO_HD inline AveragingStep MakeAveragingStep(const GroupSettings& settings, double lr, double lr_sum) {
  if (settings.averaging == Averaging::kNone) return {};
  double decay = settings.average_eval;  // of X
  if (settings.averaging == Averaging::kScheduleFree) {
    const double weight = WeightOfIterate(settings, lr);
    const double sum = lr_sum + weight;
    decay = sum > 0 ? 1 - weight / sum : 1;
  }
  return {1 - decay, 1 - decay * settings.average_train};
}

// Returns the multiple of the stored difference that, added to W, gives (1 - blend) W + blend * average.
SHAMPOO_HD inline double ExportFactor(const GroupSettings& settings, double blend) {
  return settings.averaging == Averaging::kNone ? blend : blend * (1 - 1 / settings.average_train);
}

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "core/base/host_device.h"
#include "core/config/settings.h"
#include "core/rules/norms.h"
#include "core/rules/step_scalars.h"
#include "core/rules/update.h"

// Averages of iterates (the key averaging) and of the parameter (weight_ema).
//
// With averaging, the parameter W is average_train X + (1 - average_train) Z, where X is the average and Z the newest
// iterate. A block stores a difference: Z - W with averaging, and the average minus W with weight_ema. This difference
// is 0 at the start, and bfloat16 is precise enough for it. With averaging, weight decay shrinks Z, and changes W
// only through Z. Sources: Schedule-Free (arXiv 2405.15682), GPA (arXiv 2512.17131).
namespace shampoo {

// The coefficients of a step of averaging. S is the scaled direction, P * scale.down * scale.up (DirectionScale). After
// weight decay has shrunk Z, a step computes:
//   W <- W + pull (Z - W) - move lr S,  Z <- Z - lr S
struct AveragingStep {
  double pull = 0;
  double move = 1;
};

// With schedule_free, returns the weight of a step's iterate in the average. lr: the learning rate of that step.
SHAMPOO_HD inline double WeightOfIterate(const GroupSettings& settings, double lr) {
  return std::pow(lr, settings.average_lr_power);
}

// Returns the coefficients of a step. lr_sum: with schedule_free, the sum of the weights of earlier iterates.
SHAMPOO_HD inline AveragingStep MakeAveragingStep(const GroupSettings& settings, double lr, double lr_sum) {
  if (settings.averaging == Averaging::kNone) return {};
  double decay = settings.average_eval;  // the weight of the old X in the new X
  if (settings.averaging == Averaging::kScheduleFree) {
    const double weight = WeightOfIterate(settings, lr);
    const double sum = lr_sum + weight;
    decay = sum > 0 ? 1 - weight / sum : 1;
  }
  return {1 - decay, 1 - decay * settings.average_train};
}

// The result of a step of averaging for one element. difference: the old parameter minus the new parameter. iterate:
// the new iterate minus the old parameter.
template <typename Real>
struct AveragedElement {
  Real difference, iterate;
};

// A step of averaging on the elements of a block.
template <typename Real>
class AveragedMove {
 public:
  SHAMPOO_HD AveragedMove(const AveragingStep& averaging, const StepScalars& step, const DirectionScale& scale)
      : down_(static_cast<Real>(scale.down)),
        up_(static_cast<Real>(scale.up)),
        decay_(static_cast<Real>(DecayOf(step))),
        lr_(static_cast<Real>(step.lr)),
        move_(static_cast<Real>(averaging.move * step.lr)),
        pull_(static_cast<Real>(averaging.pull)) {}

  // Returns the result for one element. p: the element of P. w: the old parameter. z: Z - W before the step.
  SHAMPOO_HD AveragedElement<Real> Of(Real p, Real w, Real z) const {
    const Real direction = p * down_ * up_;
    const Real decayed = decay_ != 0 ? z - decay_ * (w + z) : z;
    return {move_ * direction - pull_ * decayed, decayed - lr_ * direction};
  }

 private:
  Real down_, up_, decay_, lr_, move_, pull_;
};

// Returns whether step t changes a block's state of averaging or of weight_ema.
constexpr bool MovesAverage(const GroupSettings& settings, int64_t t, bool has_iterate, bool has_ema) {
  return has_iterate || (has_ema && t > settings.weight_ema_start);
}

// Return the difference that a block stores (see above) after a step that writes the parameter `written`:
// NextIterateOffset() with averaging, NextEmaOffset() with weight_ema.
//   w       the old parameter
//   offset  the new iterate minus w, or the old average minus w
//   decay   the key weight_ema
template <typename Real>
SHAMPOO_HD Real NextIterateOffset(Real offset, Real w, Real written) {
  return offset - (written - w);
}
template <typename Real>
SHAMPOO_HD Real NextEmaOffset(Real decay, Real offset, Real w, Real written) {
  return decay * (offset - (written - w));
}

// Returns the factor f of an export, which writes W + f * difference = (1 - blend) W + blend * average. `difference` is
// the stored state: Z - W with averaging, otherwise the average minus W.
SHAMPOO_HD inline double ExportFactor(const GroupSettings& settings, double blend) {
  return settings.averaging == Averaging::kNone ? blend : blend * (1 - 1 / settings.average_train);
}

}  // namespace shampoo

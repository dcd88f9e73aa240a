// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/host_device.h"
#include "core/config/settings.h"
#include "core/rules/step_scalars.h"
#include "core/rules/update.h"

// The keys that control norms of a direction or a parameter: update_norm, max_update_rms and norm_control.
namespace shampoo {

// Returns the scale of a direction of this many elements after update_norm and max_update_rms. scale.size: the norm of
// the direction, which is finite.
SHAMPOO_HD inline DirectionScale LimitNorm(const GroupSettings& settings, int64_t elements,
                                           const DirectionScale& scale) {
  const double root = std::sqrt(static_cast<double>(elements));
  double size = scale.size;
  if (size > 0 && settings.update_norm == UpdateNorm::kFrobenius) size = settings.update_norm_target;
  if (size > 0 && settings.update_norm == UpdateNorm::kRms) size = settings.update_norm_target * root;
  if (settings.max_update_rms > 0 && size > settings.max_update_rms * root) size = settings.max_update_rms * root;
  if (size == scale.size) return scale;
  return {scale.down / scale.size, scale.up * size, size};
}

// A step of norm_control hyperball (Hyperball optimization, as in MuonH): W1 = keep W - move P, where P is the
// direction before it is scaled; then W1 is scaled to the radius.
struct Hyperball {
  double keep = 1;
  double move = 0;
};

SHAMPOO_HD inline Hyperball MoveOnHyperball(const StepScalars& step, double radius, const DirectionScale& direction) {
  Hyperball ball;
  ball.keep = 1 - (step.shrinkage + step.lr * step.decoupled_decay);
  if (direction.size > 0) ball.move = step.lr * radius / direction.size * direction.down * direction.up;
  return ball;
}

// Returns the scalars of the update that moves W to W1 radius / |W1|. moved: |W1|.
template <typename Step>
SHAMPOO_HD inline Step ReturnToHyperball(const Hyperball& ball, double radius, double moved, const Step& step) {
  Step scaled = step;
  const double ratio = moved > 0 ? radius / moved : 0;
  scaled.decoupled_decay = 0;
  scaled.lr = ratio * ball.move;
  scaled.shrinkage = 1 - ratio * ball.keep;
  return scaled;
}

}  // namespace shampoo

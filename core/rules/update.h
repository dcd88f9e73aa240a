// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/kernels/element.h"
#include "core/rules/step_scalars.h"

// Functions that scale the direction of a block, and that check whether the update fits every dtype that a step writes.
namespace shampoo {

template <typename Real>
constexpr FilterScalars<Real> MakeFilterScalars(const StepScalars& step) {
  return {static_cast<Real>(step.moment_decay),      static_cast<Real>(step.moment_weight),
          static_cast<Real>(step.filter_decay),      static_cast<Real>(1 - step.filter_decay),
          static_cast<Real>(step.ahead_decay),       static_cast<Real>(1 - step.ahead_decay),
          static_cast<Real>(step.filter_correction), static_cast<Real>(step.moment_correction),
          static_cast<Real>(step.moment_epsilon)};
}

template <typename Real>
constexpr ApplyScalars<Real> MakeApplyScalars(const StepScalars& step, double down, double up) {
  return {static_cast<Real>(down),
          static_cast<Real>(up),
          static_cast<Real>(step.decoupled_decay),
          static_cast<Real>(step.momentum),
          static_cast<Real>(step.momentum_weight),
          static_cast<Real>(step.lr),
          static_cast<Real>(step.shrinkage),
          step.nesterov,
          step.cautious};
}

// The scale of the direction of a block. The scaled direction is P * down * up.
struct DirectionScale {
  double down = 1;
  double up = 1;
  double size = 0;  // a bound on the magnitudes of the scaled direction; infinite or NaN if P is not finite
};

// Returns the scale of a direction P. norm: |P|. graft_norm: |D|; used only if is_grafted.
constexpr DirectionScale ScaleDirection(const StepScalars& step, bool is_grafted, double norm, double graft_norm) {
  if (!is_grafted) return {1, 1, norm};
  // Dividing by an infinite norm would hide the infinity: finite elements of P would become 0.
  const bool is_finite = norm - norm == 0;
  return {1 / (norm + step.norm_guard), graft_norm, is_finite ? graft_norm : norm};
}

// Multiplies the direction of method muon or sign by the dual norm of the filtered gradient (the key
// dual_norm_scale). dual_norm: the inner product of the filtered gradient and the direction.
constexpr void ScaleByDualNorm(double dual_norm, DirectionScale* scale) {
  scale->up *= dual_norm;
  scale->size *= dual_norm;
}

// The values of a block that a step writes, and their dtypes.
struct UpdateTargets {
  Dtype computation;
  Dtype param;
  Dtype out;  // the dtype of the new parameter or, if `output` is kUpdates, of the update
  Output output;
  bool has_momentum;
  Dtype momentum;
  bool has_copy;  // the step also writes a copy of the new parameter (shampoo_buffers::copy)
  Dtype copy;
  bool is_exchanged;      // the block is exchanged between ranks
  bool exchanges_params;  // ranks exchange new parameters instead of updates
  Dtype exchange;
};

// The largest magnitudes that the step of a block may write.
struct UpdateLimits {
  double momentum, update, value;  // value: the new parameter
  bool is_narrow;                  // a dtype that is written has a smaller range than the computation dtype
};

constexpr UpdateLimits LimitsOf(const UpdateTargets& targets) {
  const double limit = LargestFinite(targets.computation);
  UpdateLimits limits{limit, limit, limit, false};
  const auto lower = [&limits, limit](double* to, Dtype dtype) {
    const double of_dtype = LargestFinite(dtype);
    if (of_dtype < *to) *to = of_dtype;
    limits.is_narrow = limits.is_narrow || of_dtype < limit;
  };
  if (targets.has_momentum) lower(&limits.momentum, targets.momentum);
  lower(targets.output == Output::kUpdates ? &limits.update : &limits.value, targets.out);
  if (targets.has_copy) lower(&limits.value, targets.copy);
  if (targets.is_exchanged) lower(targets.exchanges_params ? &limits.value : &limits.update, targets.exchange);
  return limits;
}

// Returns whether a direction of this size, and its product with lr, fit the computation dtype. Returns false if `size`
// is NaN. size: DirectionScale::size.
constexpr bool DirectionFits(const StepScalars& step, Dtype computation, double size) {
  const double limit = LargestFinite(computation);
  const double lr = step.lr < 0 ? -step.lr : step.lr;
  return size < limit && lr * size < limit;
}

// Returns whether bounds on the magnitudes of P, W and M can prove that an update fits. They cannot if a dtype that is
// written has a smaller range than the computation dtype. They also cannot if the dtype of the parameter has a larger
// range, because reading a parameter may then give infinity.
constexpr bool BoundsSuffice(const UpdateLimits& limits, const UpdateTargets& targets) {
  return !limits.is_narrow && LargestFinite(targets.param) <= LargestFinite(targets.computation);
}

// Returns whether an update is so small that it cannot move a finite parameter out of the range of the computation
// dtype. Returns false for NaN.
//   size       a bound on the direction
//   largest_w  a bound on |W|; used only if the step decays the parameter
//   largest_m  a bound on |M|; used only with momentum
constexpr bool StaysSmall(const StepScalars& step, Dtype computation, bool has_momentum, double size, double largest_w,
                          double largest_m) {
  // This number is below a quarter of a unit in the last place of the largest finite number.
  const double small = LargestFinite(computation) * MachineEpsilon(computation) / 8;
  const double direction = step.decoupled_decay != 0 ? size + step.decoupled_decay * largest_w : size;
  const double moved = has_momentum ? step.momentum * largest_m + direction : direction;
  const double total = has_momentum && step.nesterov ? direction + step.momentum * moved : moved;
  const double lr = step.lr < 0 ? -step.lr : step.lr;
  const double shrinkage = step.shrinkage < 0 ? -step.shrinkage : step.shrinkage;
  const double shrunk = shrinkage != 0 ? shrinkage * largest_w : 0;
  return moved < small && total < small && lr * total + shrunk < small;
}

// How a step checks whether the direction of a block can be applied.
enum class FitCheckMode : int32_t {
  kNone,     // the bound on the direction (DirectionScale::size) decides; no element is read
  kByBound,  // a bound on the terms of weight decay and momentum decides; if it is too large, every element is checked
  kExact,    // every element is checked
};

// Returns how the fit of a direction of this size is checked. bounds_suffice: BoundsSuffice(), or false if the caller
// has another reason to check every element.
constexpr FitCheckMode FitCheckFor(const StepScalars& step, const UpdateTargets& targets, bool bounds_suffice,
                                   double size) {
  const bool is_small = StaysSmall(step, targets.computation, targets.has_momentum, size, 0, 0);
  if (!bounds_suffice || !is_small) return FitCheckMode::kExact;
  return targets.has_momentum || step.decays_parameter() ? FitCheckMode::kByBound : FitCheckMode::kNone;
}

// The mark of a block whose update was skipped. If ranks exchange this block or a slice of it, every byte of the first
// element that is sent has this value. In each dtype, such an element is a NaN that no arithmetic produces.
inline constexpr unsigned char kSkippedMark = 0xff;

// Returns whether the values that are written for an element fit their dtypes. value: the new parameter that every rank
// computes; it may differ from applied.value, because ranks round the values that they exchange.
template <typename Real>
constexpr bool ElementFits(const UpdateLimits& limits, const AppliedElement<Real>& applied, Real value,
                           bool param_is_finite) {
  const auto is_within = [](Real number, double limit) {
    const double wide = static_cast<double>(number);
    return -limit <= wide && wide <= limit;
  };
  // If the parameter was not finite before, the new value is not a fault of this step.
  return is_within(applied.moved, limits.momentum) && is_within(applied.update, limits.update) &&
         (is_within(value, limits.value) || !param_is_finite);
}

}  // namespace shampoo

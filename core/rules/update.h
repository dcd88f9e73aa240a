// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/kernels/element.h"
#include "core/rules/step_scalars.h"

// What a step does to the direction of a block as a whole, and whether its update fits every dtype that is written.
namespace shampoo {

template <typename Real>
constexpr FilterScalars<Real> MakeFilterScalars(const StepScalars& step) {
  return {static_cast<Real>(step.moment_decay),      static_cast<Real>(step.moment_weight),
          static_cast<Real>(step.filter_decay),      static_cast<Real>(1 - step.filter_decay),
          static_cast<Real>(step.filter_correction), static_cast<Real>(step.moment_correction),
          static_cast<Real>(step.grafting_epsilon)};
}

template <typename Real>
constexpr ApplyScalars<Real> MakeApplyScalars(const StepScalars& step, double down, double up) {
  return {static_cast<Real>(down),          static_cast<Real>(up),      static_cast<Real>(step.decoupled_decay),
          static_cast<Real>(step.momentum), static_cast<Real>(step.lr), step.nesterov};
}

// How the direction of a block is scaled: it is P * down * up.
struct DirectionScale {
  double down = 1;
  double up = 1;
  double size = 0;  // a bound on the elements of the direction, infinite or NaN if P is
};

// norm: |P|. graft_norm: |D|, which counts with grafting of a preconditioned direction only.
constexpr DirectionScale ScaleDirection(const StepScalars& step, bool is_grafted, double norm, double graft_norm) {
  if (!is_grafted) return {1, 1, norm};
  // An infinite norm would scale P down to nothing, and NaN would be 0 times infinity.
  const bool is_finite = norm - norm == 0;
  return {1 / (norm + step.norm_guard), graft_norm, is_finite ? graft_norm : norm};
}

// What a step writes of a block, and in which dtypes.
struct UpdateTargets {
  Dtype computation;
  Dtype param;
  Dtype out;
  Output output;
  bool has_momentum;
  Dtype momentum;
  bool has_copy;
  Dtype copy;
  bool is_exchanged;      // between replicas
  bool exchanges_params;  // new parameters, not updates
  Dtype exchange;
};

// The largest magnitudes that the step of a block may write.
struct UpdateLimits {
  double momentum, update, value;
  bool is_narrow;  // a dtype that is written ends before the computation's does
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

// Whether no direction of this size is beyond the computation dtype. NaN is.
constexpr bool DirectionFits(const StepScalars& step, Dtype computation, double size) {
  const double limit = LargestFinite(computation);
  const double lr = step.lr < 0 ? -step.lr : step.lr;
  return size < limit && lr * size < limit;
}

// Whether bounds on the magnitudes of P, W and M can show that an update fits. A wider parameter may become infinite
// when it is read in the computation dtype.
constexpr bool BoundsSuffice(const UpdateLimits& limits, const UpdateTargets& targets) {
  return !limits.is_narrow && LargestFinite(targets.param) <= LargestFinite(targets.computation);
}

// Whether an update is so small that no parameter at the limit of the computation dtype goes beyond it. size: a bound
// on the direction; largest_w, largest_m: bounds on |W|, which counts with decoupled decay only, and |M|, which counts
// with momentum only. NaN is not small.
constexpr bool StaysSmall(const StepScalars& step, Dtype computation, bool has_momentum, double size, double largest_w,
                          double largest_m) {
  // Below a quarter of a unit in the last place of the limit.
  const double small = LargestFinite(computation) * MachineEpsilon(computation) / 8;
  const double direction = step.decoupled_decay != 0 ? size + step.decoupled_decay * largest_w : size;
  const double moved = has_momentum ? step.momentum * largest_m + direction : direction;
  const double total = has_momentum && step.nesterov ? direction + step.momentum * moved : moved;
  const double lr = step.lr < 0 ? -step.lr : step.lr;
  return moved < small && total < small && lr * total < small;
}

// Every byte of the first element of a block whose update was skipped, in an exchange between replicas: in each dtype a
// NaN that no arithmetic makes.
inline constexpr unsigned char kSkippedMark = 0xff;

// Whether what is written of an element fits. value: the new parameter as every rank computes it, which may differ from
// applied.value by the rounding of the exchange.
template <typename Real>
constexpr bool ElementFits(const UpdateLimits& limits, const AppliedElement<Real>& applied, Real value,
                           bool param_is_finite) {
  const auto is_within = [](Real number, double limit) {
    const double wide = static_cast<double>(number);
    return -limit <= wide && wide <= limit;
  };
  // A parameter that is not finite stays so, which is not caused by this step.
  return is_within(applied.moved, limits.momentum) && is_within(applied.update, limits.update) &&
         (is_within(value, limits.value) || !param_is_finite);
}

}  // namespace shampoo

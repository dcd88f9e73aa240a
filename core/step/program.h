// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/config/settings.h"

namespace shampoo {

inline constexpr int64_t kStepLimit = int64_t{1} << 53;  // counters stay below it, and so are exact as doubles

// What becomes of the filtered gradient H of a block.
enum class DirectionRule {
  kPrecondition,  // P = H contracted with the inverse roots, then grafted
  kGraft,         // P = D, the grafting method's own direction
  kFiltered,      // P = H: the inverse roots are still identities
  kZero,          // P = 0: the inverse roots are still zero
};

// What a step does for the inverse roots of a block.
enum class RootTask : unsigned char {
  kNone,
  kCompute,       // they are computed from the factor matrices as they are now
  kTakeSnapshot,  // the factor matrices are kept, to compute them later
  kFromSnapshot,  // they are computed from what was kept root_async steps ago, and used from now on
  kTakeOver,      // the same, but that they have been computed since, on a device
};

// Whether a step uses roots from now on that it did not use before.
constexpr bool Refreshes(RootTask task) {
  return task == RootTask::kCompute || task == RootTask::kFromSnapshot || task == RootTask::kTakeOver;
}

struct RootSchedule {
  RootTask task = RootTask::kNone;
  DirectionRule rule = DirectionRule::kPrecondition;

  bool refreshes() const { return Refreshes(task); }
};

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
  double factor_correction = 1;
  double snapshot_correction = 1;      // the factor_correction of step t - root_async
  const Settings* settings = nullptr;  // the group's: by which rules roots are computed

  // E <- filter_keep * E + (1 - filter_keep) * G and H = E / filter_correction; H = G if filter_keep is 0
  double filter_keep = 0;
  double filter_correction = 1;

  // P by the rule of the block's schedule; with kPrecondition and grafting P <- P * |D| / (|P| + 1e-16), D = H or
  // H / (sqrt(V / moment_correction) + eps)
  Grafting grafting = Grafting::kNone;
  double moment_correction = 1;
  double grafting_epsilon = 0;

  // P <- P + decoupled_decay * W
  double decoupled_decay = 0;

  // M <- momentum * M + P; P <- P + momentum * M (Nesterov) or M
  double momentum = 0;
  bool nesterov = false;

  // U = -lr P; out = W + U, or U
  double lr = 0;
  Output output = Output::kParameters;
};

StepProgram MakeProgram(const Settings& settings, int64_t t);

// start: the first step at which a block is preconditioned, its phase counted in. For devices, too.
constexpr bool RootsAreDue(int64_t t, int64_t start, int64_t frequency, bool spread) {
  // Spread roots keep to their own phase; the reference's schedule is the multiples of the frequency.
  const int64_t since = spread ? t - start : t;
  return t == start || (t > start && since % frequency == 0);
}
// async: root_async, less than the frequency, so that no step has two tasks.
constexpr RootTask RootTaskAt(int64_t t, int64_t start, int64_t frequency, bool spread, int64_t async) {
  // The first roots have none before them that a step could go on with.
  if (RootsAreDue(t, start, frequency, spread)) {
    return async == 0 || t == start ? RootTask::kCompute : RootTask::kTakeSnapshot;
  }
  const int64_t taken = t - async;
  const bool follows = async > 0 && taken > start && RootsAreDue(taken, start, frequency, spread);
  return follows ? RootTask::kFromSnapshot : RootTask::kNone;
}
constexpr DirectionRule RuleAt(int64_t t, int64_t start, Grafting grafting, InitialInverse initial) {
  if (t >= start) return DirectionRule::kPrecondition;
  if (grafting != Grafting::kNone) return DirectionRule::kGraft;
  return initial == InitialInverse::kIdentity ? DirectionRule::kFiltered : DirectionRule::kZero;
}

// phase: steps by which the refreshes of a block come later than those of the group, with root_spread; else 0.
RootSchedule ScheduleAt(const Settings& settings, int64_t t, int64_t phase);

}  // namespace shampoo

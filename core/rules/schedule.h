// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/config/settings.h"

// Which steps refresh inverse roots, and how each step computes the direction of a block. The results depend only on
// the step number, on keys, on the plan and, if root_async is above 0, on the state of the block. Ranks, backends and
// resumed runs therefore get the same results. Host and device compile the same functions.
namespace shampoo {

// Step counters stay below this limit, so that they are exact as doubles.
inline constexpr int64_t kStepLimit = int64_t{1} << 53;
constexpr bool IsStepCounter(int64_t value) { return value >= 0 && value < kStepLimit; }

// How the direction P of a block follows from the filtered gradient H.
enum class DirectionRule {
  kPrecondition,  // P is the method's direction, such as H contracted with the inverse roots; then P is grafted
  kGraft,         // P = D, the grafting method's own direction
  kFiltered,      // P = H: the inverse roots are still identities
  kZero,          // P = 0: the inverse roots are still zero
};

// What a step does with the inverse roots or eigenbases of a block.
enum class RootTask : unsigned char {
  kNone,
  kCompute,           // compute new roots or eigenbases from the current factor matrices
  kTakeSnapshot,      // copy the factor matrices, to compute the roots later
  kFromSnapshot,      // compute roots from a snapshot that is at least root_async steps old, and use them
  kAdoptDeviceRoots,  // use the roots that a device has already computed from a snapshot
  kInitialize,        // compute the first eigenbases of the block
};

// Returns whether the task puts new roots into use.
constexpr bool Refreshes(RootTask task) {
  return task == RootTask::kCompute || task == RootTask::kFromSnapshot || task == RootTask::kAdoptDeviceRoots ||
         task == RootTask::kInitialize;
}

// Returns whether the task reads the factor matrices that the step updates.
constexpr bool ReadsFactors(RootTask task) {
  return task == RootTask::kCompute || task == RootTask::kTakeSnapshot || task == RootTask::kInitialize;
}

// The schedule of a block in one step.
struct RootSchedule {
  RootTask task = RootTask::kNone;
  DirectionRule rule = DirectionRule::kPrecondition;

  bool refreshes() const { return Refreshes(task); }
};

// The keys that decide when roots are refreshed.
struct RefreshKeys {
  int64_t start = 1;      // start_preconditioning_step; the plan has replaced -1 by a step number
  int64_t frequency = 1;  // precondition_frequency
  int64_t async = 0;      // root_async, which is below the frequency
  double growth = 0;      // refresh_growth
  bool spread = false;    // root_spread
};

// A refresh of a group. If root_spread is true, each block is refreshed at its own step in the interval that begins
// with the refresh of the group.
struct Refresh {
  int64_t step = 0;  // 0: there has been no refresh
  // The number of steps until the next refresh. With refresh_growth=0, `interval` is always the frequency, although the
  // second refresh may follow sooner if the first refresh is between two multiples of the frequency.
  int64_t interval = 0;
  int64_t number = 0;  // counted from 1
};

// Returns the interval after a refresh at step t: max(1, min(frequency, floor(growth * t))).
constexpr int64_t IntervalAfter(const RefreshKeys& keys, int64_t t) {
  const double grown = keys.growth * static_cast<double>(t);
  if (keys.growth == 0 || !(grown < static_cast<double>(keys.frequency))) return keys.frequency;
  return grown < 1 ? 1 : static_cast<int64_t>(grown);
}

// Returns the first step t with growth * t >= value.
constexpr int64_t FirstStepWith(double growth, double value) {
  const double quotient = value / growth;
  if (!(quotient < static_cast<double>(kStepLimit))) return kStepLimit;
  auto t = static_cast<int64_t>(quotient);
  // The quotient is rounded, so the loops compare products, as IntervalAfter does.
  while (growth * static_cast<double>(t) < value) ++t;
  while (t > 0 && growth * static_cast<double>(t - 1) >= value) --t;
  return t;
}

// Returns the last refresh at or before step t. Intervals never become shorter, so each iteration of the loop can skip
// all refreshes with the same interval.
constexpr Refresh LastRefresh(const RefreshKeys& keys, int64_t t) {
  if (t < keys.start) return {};
  const int64_t frequency = keys.frequency;
  if (keys.growth == 0 && keys.spread) {
    const int64_t before = (t - keys.start) / frequency;
    return {keys.start + before * frequency, frequency, before + 1};
  }
  if (keys.growth == 0) {
    // As in the reference implementation, refreshes are at the start and at the later multiples of the frequency.
    const int64_t multiple = t / frequency * frequency;
    return {multiple > keys.start ? multiple : keys.start, frequency, t / frequency - keys.start / frequency + 1};
  }
  int64_t before = 0;
  for (int64_t at = keys.start;;) {
    const int64_t interval = IntervalAfter(keys, at);
    int64_t end = t + 1;
    if (interval < frequency) {
      const int64_t longer = FirstStepWith(keys.growth, static_cast<double>(interval + 1));
      end = longer < end ? longer : end;
    }
    const int64_t passed = (end - 1 - at) / interval;
    const int64_t last = at + passed * interval;
    before += passed;
    if (last + interval > t) return {last, interval, before + 1};
    at = last + interval;
    ++before;
  }
}

// The part of the schedule of one step that all blocks of a group share.
struct GroupSchedule {
  RefreshKeys keys;
  int64_t t = 0;
  Refresh last;         // the last refresh at or before t
  Refresh last_usable;  // the last refresh at or before t - async; its roots may be used at step t
  Grafting grafting = Grafting::kNone;
  InitialInverse initial_inverse = InitialInverse::kIdentity;
};

constexpr GroupSchedule GroupScheduleOf(const RefreshKeys& keys, int64_t t, Grafting grafting,
                                        InitialInverse initial_inverse) {
  return {keys, t, LastRefresh(keys, t), LastRefresh(keys, t - keys.async), grafting, initial_inverse};
}

// Returns by how many steps a block's refresh follows the refresh of its group: 0 without root_spread, otherwise
// floor(phase * interval / frequency), which is less than the interval. phase: Block::phase, from 0 to frequency - 1.
constexpr int64_t SpreadOffset(const RefreshKeys& keys, int64_t phase, int64_t interval) {
  if (!keys.spread || interval == keys.frequency) return keys.spread ? phase : 0;
  const double exact = static_cast<double>(phase) * static_cast<double>(interval) / static_cast<double>(keys.frequency);
  const auto offset = static_cast<int64_t>(exact);
  return offset < interval ? offset : interval - 1;
}

// Returns how many refreshes a group has in steps 1 to `steps`.
constexpr int64_t RefreshCount(const RefreshKeys& keys, int64_t steps) { return LastRefresh(keys, steps).number; }

// Returns the first step at which a block with this phase is preconditioned.
constexpr int64_t FirstRefreshOf(const RefreshKeys& keys, int64_t phase) {
  return keys.start + SpreadOffset(keys, phase, IntervalAfter(keys, keys.start));
}

// Returns whether the interval after a refresh leaves time for roots that are used `async` steps later: the interval is
// longer than `async`, and `async` is above 0.
constexpr bool IsDeferred(const RefreshKeys& keys, const Refresh& refresh) {
  return keys.async > 0 && refresh.interval > keys.async;
}

// Returns whether step t refreshes a block with this phase as part of this refresh of the group.
constexpr bool IsRefreshedAt(const RefreshKeys& keys, int64_t phase, const Refresh& refresh, int64_t t) {
  return refresh.step > 0 && t == refresh.step + SpreadOffset(keys, phase, refresh.interval);
}

// Returns whether the step of this schedule refreshes a block with this phase.
constexpr bool IsDue(const GroupSchedule& group, int64_t phase) {
  return IsRefreshedAt(group.keys, phase, group.last, group.t);
}

// Returns true if a block that has had a gradient in every step has a root task in this step. The result can also be
// true in the step that is root_async steps after the first refresh, although the roots of that refresh are already in
// use. It is the same on all ranks, because it does not depend on the state of the block, which only its owner has.
constexpr bool IsRegularTask(const GroupSchedule& group, int64_t phase) {
  const RefreshKeys& keys = group.keys;
  const Refresh& taken = group.last_usable;
  return IsDue(group, phase) || (IsDeferred(keys, taken) && IsRefreshedAt(keys, phase, taken, group.t - keys.async));
}

// Returns the root task of a block that takes part in this step.
// snapshot_step: the state of that name before the step. The state exists only if root_async is above 0. Otherwise,
// pass 0.
//   0   the block has not used any roots yet
//   s   the roots of the factor matrices of step s are pending
//   -s  the roots of the factor matrices of step s are in use, and no roots are pending
// A refresh takes a snapshot, and steps continue with the roots in use, if three conditions hold: there are roots in
// use, the interval is longer than root_async, and no older roots are pending. Otherwise the refresh computes its roots
// immediately. If |snapshot_step| is the current step, this block has already made the step, and another rank has
// rejected the step. The block then makes the step again in the same way.
constexpr RootTask RootTaskOf(const GroupSchedule& group, int64_t phase, int64_t snapshot_step) {
  const bool is_pending = snapshot_step > 0;
  if (IsDue(group, phase)) {
    if (snapshot_step == -group.t) return RootTask::kCompute;
    const bool only_in_use = snapshot_step < 0 || snapshot_step == group.t;
    const bool defers = only_in_use && IsDeferred(group.keys, group.last);
    return defers ? RootTask::kTakeSnapshot : RootTask::kCompute;
  }
  return is_pending && group.t - group.keys.async >= snapshot_step ? RootTask::kFromSnapshot : RootTask::kNone;
}

// Returns the state snapshot_step of a block after this task in step t. before: the state before the step.
constexpr int64_t SnapshotStepAfter(RootTask task, int64_t before, int64_t t) {
  switch (task) {
    case RootTask::kTakeSnapshot:
      return t;
    case RootTask::kCompute:
      return -t;
    case RootTask::kFromSnapshot:
    case RootTask::kAdoptDeviceRoots:
      return -before;
    case RootTask::kInitialize:
    case RootTask::kNone:
      break;
  }
  return before;
}

// Returns how a block with this phase computes its direction in this step. is_preconditioned: whether the block has
// factor matrices.
constexpr DirectionRule DirectionRuleOf(const GroupSchedule& group, int64_t phase, bool is_preconditioned) {
  if (is_preconditioned && group.t >= FirstRefreshOf(group.keys, phase)) return DirectionRule::kPrecondition;
  if (group.grafting != Grafting::kNone) return DirectionRule::kGraft;
  return group.initial_inverse == InitialInverse::kIdentity ? DirectionRule::kFiltered : DirectionRule::kZero;
}

// Returns the schedule of a block. phase: Block::phase. is_preconditioned: see DirectionRuleOf. snapshot_step: see
// RootTaskOf.
constexpr RootSchedule BlockScheduleOf(const GroupSchedule& group, int64_t phase, bool is_preconditioned,
                                       int64_t snapshot_step) {
  return {is_preconditioned ? RootTaskOf(group, phase, snapshot_step) : RootTask::kNone,
          DirectionRuleOf(group, phase, is_preconditioned)};
}

// Returns the direction rule of a block whose method is steepest descent (IsSteepestDescent).
constexpr DirectionRule RuleWithoutRoots(const GroupSchedule& group) { return DirectionRuleOf(group, 0, true); }

constexpr RefreshKeys RefreshKeysOf(const GroupSettings& settings) {
  return {settings.start_preconditioning_step, settings.precondition_frequency, settings.root_async,
          settings.refresh_growth, settings.root_spread};
}

constexpr GroupSchedule GroupScheduleOf(const GroupSettings& settings, int64_t t) {
  return GroupScheduleOf(RefreshKeysOf(settings), t, settings.grafting, settings.initial_inverse);
}

}  // namespace shampoo

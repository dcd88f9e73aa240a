// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/config/settings.h"

// Which steps refresh inverse roots, and what becomes of the gradient in each. Functions of the number of the step, of
// keys and, with root_async, of the block's own state, so that ranks, backends and resumed runs agree; host and device
// compile the same ones.
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
  kCompute,           // they are computed from the factor matrices as they are now
  kTakeSnapshot,      // the factor matrices are kept, to compute them later
  kFromSnapshot,      // they are computed from what was kept root_async or more steps ago, and used from now on
  kAdoptDeviceRoots,  // the same, but that they have been computed since, on a device
};

// Whether a step uses roots from now on that it did not use before.
constexpr bool Refreshes(RootTask task) {
  return task == RootTask::kCompute || task == RootTask::kFromSnapshot || task == RootTask::kAdoptDeviceRoots;
}

struct RootSchedule {
  RootTask task = RootTask::kNone;
  DirectionRule rule = DirectionRule::kPrecondition;

  bool refreshes() const { return Refreshes(task); }
};

// The keys that decide when roots are refreshed.
struct RefreshKeys {
  int64_t start = 1;  // start_preconditioning_step, resolved
  int64_t frequency = 1;
  int64_t async = 0;  // below the frequency
  double growth = 0;
  bool spread = false;
};

// A refresh of a group. With root_spread each block has its own within the interval that begins with it.
struct Refresh {
  int64_t step = 0;      // 0: there was none yet
  int64_t interval = 0;  // steps until the next one; without refresh_growth the frequency
  int64_t number = 0;    // counted from 1
};

// max(1, min(frequency, floor(growth * t)))
constexpr int64_t IntervalAfter(const RefreshKeys& keys, int64_t t) {
  const double grown = keys.growth * static_cast<double>(t);
  if (keys.growth == 0 || !(grown < static_cast<double>(keys.frequency))) return keys.frequency;
  return grown < 1 ? 1 : static_cast<int64_t>(grown);
}

// The first step t with growth * t >= value.
constexpr int64_t FirstStepWith(double growth, double value) {
  const double quotient = value / growth;
  if (!(quotient < static_cast<double>(kStepLimit))) return kStepLimit;
  auto t = static_cast<int64_t>(quotient);
  // The quotient is rounded: the products decide, as in IntervalAfter.
  while (growth * static_cast<double>(t) < value) ++t;
  while (t > 0 && growth * static_cast<double>(t - 1) >= value) --t;
  return t;
}

// The last refresh at or before step t. Intervals only grow, so that refreshes of one interval are passed in one go.
constexpr Refresh LastRefresh(const RefreshKeys& keys, int64_t t) {
  if (t < keys.start) return {};
  const int64_t frequency = keys.frequency;
  if (keys.growth == 0 && keys.spread) {
    const int64_t before = (t - keys.start) / frequency;
    return {keys.start + before * frequency, frequency, before + 1};
  }
  if (keys.growth == 0) {
    // The reference's schedule: the start, and the multiples of the frequency after it.
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

// A step of a group: what the schedules of its blocks have in common.
struct GroupSchedule {
  RefreshKeys keys;
  int64_t t = 0;
  Refresh last;         // at or before t
  Refresh last_usable;  // at or before t - async, where a block that took part in each step since uses its roots
  int64_t first_interval = 1;
  Grafting grafting = Grafting::kNone;
  InitialInverse initial_inverse = InitialInverse::kIdentity;
};

constexpr GroupSchedule MakeGroupSchedule(const RefreshKeys& keys, int64_t t, Grafting grafting,
                                          InitialInverse initial_inverse) {
  return {keys,
          t,
          LastRefresh(keys, t),
          LastRefresh(keys, t - keys.async),
          IntervalAfter(keys, keys.start),
          grafting,
          initial_inverse};
}

// By how many steps a block's refresh follows that of the group: floor(phase * interval / frequency), which is below
// the interval.
constexpr int64_t SpreadOffset(const RefreshKeys& keys, int64_t phase, int64_t interval) {
  if (!keys.spread || interval == keys.frequency) return keys.spread ? phase : 0;
  const double exact = static_cast<double>(phase) * static_cast<double>(interval) / static_cast<double>(keys.frequency);
  const auto offset = static_cast<int64_t>(exact);
  return offset < interval ? offset : interval - 1;
}

// How many of the steps 1 to `steps` refresh the roots of a block.
constexpr int64_t RefreshCount(const RefreshKeys& keys, int64_t steps) { return LastRefresh(keys, steps).number; }

// The first step at which a block with this phase is preconditioned.
constexpr int64_t FirstRefreshOf(const RefreshKeys& keys, int64_t phase) {
  return keys.start + SpreadOffset(keys, phase, IntervalAfter(keys, keys.start));
}

// Whether the roots of a refresh may be used `async` steps after it: no later than the next refresh.
constexpr bool IsDeferred(const RefreshKeys& keys, const Refresh& refresh) {
  return keys.async > 0 && refresh.interval > keys.async;
}

// Whether a block with this phase has the refresh at step t.
constexpr bool IsRefreshedAt(const RefreshKeys& keys, int64_t phase, const Refresh& refresh, int64_t t) {
  return refresh.step > 0 && t == refresh.step + SpreadOffset(keys, phase, refresh.interval);
}

// Whether the schedule has a refresh of a block at this step.
constexpr bool IsDue(const GroupSchedule& group, int64_t phase) {
  return IsRefreshedAt(group.keys, phase, group.last, group.t);
}

// Whether a block that takes part in every step has something to do for its roots at this one. All ranks come to the
// same answer, whoever owns the block.
constexpr bool IsRegularTask(const GroupSchedule& group, int64_t phase) {
  const RefreshKeys& keys = group.keys;
  const Refresh& taken = group.last_usable;
  return IsDue(group, phase) || (IsDeferred(keys, taken) && IsRefreshedAt(keys, phase, taken, group.t - keys.async));
}

// What a block that takes part in this step does for its roots. snapshot_step: its state of that name before the step,
// which is kept with root_async only (otherwise 0):
//   0   the block has not used any roots yet
//   s   the roots of the factor matrices of step s are waiting to be used
//   -s  they are in use, and none are waiting
// A refresh takes a snapshot, and the steps go on with the roots that they have, if there are any, if the schedule
// leaves time for the new ones, and if no older ones are waiting. Otherwise its roots are used at once. If the state is
// of this very step, another rank has refused the step after this block made it. It is made again in the same way.
constexpr RootTask RootTaskOf(const GroupSchedule& group, int64_t phase, int64_t snapshot_step) {
  const bool waits = snapshot_step > 0;
  if (IsDue(group, phase)) {
    if (snapshot_step == -group.t) return RootTask::kCompute;
    const bool has_roots_alone = snapshot_step < 0 || snapshot_step == group.t;
    const bool goes_on = has_roots_alone && IsDeferred(group.keys, group.last);
    return goes_on ? RootTask::kTakeSnapshot : RootTask::kCompute;
  }
  return waits && group.t - group.keys.async >= snapshot_step ? RootTask::kFromSnapshot : RootTask::kNone;
}

// The state snapshot_step of a block after step t did this task.
constexpr int64_t SnapshotStepAfter(RootTask task, int64_t before, int64_t t) {
  switch (task) {
    case RootTask::kTakeSnapshot:
      return t;
    case RootTask::kCompute:
      return -t;
    case RootTask::kFromSnapshot:
    case RootTask::kAdoptDeviceRoots:
      return -before;
    case RootTask::kNone:
      break;
  }
  return before;
}

constexpr DirectionRule DirectionRuleOf(const GroupSchedule& group, int64_t phase, bool is_preconditioned) {
  const int64_t first = group.keys.start + SpreadOffset(group.keys, phase, group.first_interval);
  if (is_preconditioned && group.t >= first) return DirectionRule::kPrecondition;
  if (group.grafting != Grafting::kNone) return DirectionRule::kGraft;
  return group.initial_inverse == InitialInverse::kIdentity ? DirectionRule::kFiltered : DirectionRule::kZero;
}

// phase: of the block, with root_spread; otherwise 0. snapshot_step: see RootTaskOf.
constexpr RootSchedule ScheduleOf(const GroupSchedule& group, int64_t phase, bool is_preconditioned,
                                  int64_t snapshot_step) {
  return {is_preconditioned ? RootTaskOf(group, phase, snapshot_step) : RootTask::kNone,
          DirectionRuleOf(group, phase, is_preconditioned)};
}

constexpr RefreshKeys RefreshKeysOf(const GroupSettings& settings) {
  return {settings.start_preconditioning_step, settings.precondition_frequency, settings.root_async,
          settings.refresh_growth, settings.root_spread};
}

constexpr GroupSchedule MakeSchedule(const GroupSettings& settings, int64_t t) {
  return MakeGroupSchedule(RefreshKeysOf(settings), t, settings.grafting, settings.initial_inverse);
}

}  // namespace shampoo

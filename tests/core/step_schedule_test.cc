// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/rules/schedule.h"

namespace shampoo {
namespace {

// Returns the steps up to `end` at which the roots of a group are refreshed according to the rule in docs/keys.md.
std::vector<int64_t> RefreshesByRule(const RefreshKeys& keys, int64_t end) {
  std::vector<int64_t> steps;
  if (keys.growth > 0) {
    for (int64_t t = keys.start; t <= end;) {
      steps.push_back(t);
      const double grown = std::floor(keys.growth * static_cast<double>(t));
      t += std::max<int64_t>(1, static_cast<int64_t>(std::min(static_cast<double>(keys.frequency), grown)));
    }
    return steps;
  }
  for (int64_t t = keys.start; t <= end; ++t) {
    const int64_t since = keys.spread ? t - keys.start : t;
    if (t == keys.start || since % keys.frequency == 0) steps.push_back(t);
  }
  return steps;
}

RefreshKeys Grown(int64_t start, int64_t frequency, double growth, bool spread = false, int64_t async = 0) {
  return {.start = start, .frequency = frequency, .async = async, .growth = growth, .spread = spread};
}

TEST_CASE("at every step, the last refresh, its interval and the number of refreshes follow the rule in docs/keys.md") {
  constexpr int64_t kEnd = 700;
  // 0.044 tests rounding: 500 * 0.044 is 22, but the rounded quotient 22 / 0.044 is above 500.
  for (const double growth : {0.0, 0.003, 0.05, 0.1, 0.3, 1.0 / 3, 0.5, 1.0, 0.044, 2.5, 100.0, 1e300}) {
    for (const int64_t frequency : {1, 2, 3, 7, 10, 50, 1000}) {
      for (const int64_t start : {1, 2, 5, 33, 200}) {
        if (growth == 0 && start < frequency) continue;
        for (const bool spread : {false, true}) {
          const RefreshKeys keys = Grown(start, frequency, growth, spread);
          CAPTURE(growth);
          CAPTURE(frequency);
          CAPTURE(start);
          const std::vector<int64_t> expected = RefreshesByRule(keys, kEnd + frequency);
          for (int64_t t = 1; t <= kEnd; ++t) {
            const auto after = std::upper_bound(expected.begin(), expected.end(), t);
            const Refresh last = LastRefresh(keys, t);
            REQUIRE(last.number == after - expected.begin());
            REQUIRE(last.step == (after == expected.begin() ? 0 : *(after - 1)));
            if (last.number > 0 && (growth > 0 || spread)) REQUIRE(last.step + last.interval == *after);
            REQUIRE(RefreshCount(keys, t) == last.number);
          }
        }
      }
    }
  }
}

TEST_CASE("the schedule of refreshes is correct at steps and frequencies near their limits") {
  constexpr int64_t kFar = kStepLimit - 1;
  CHECK(LastRefresh(Grown(1, kStepLimit, 1.0), kFar).interval == kStepLimit / 2);
  CHECK(LastRefresh(Grown(1, 50, 0.1), kFar).interval == 50);
  CHECK(kFar - LastRefresh(Grown(1, 50, 0.1), kFar).step < 50);
  CHECK(LastRefresh(Grown(1, 50, 1e-300), kFar).step == kFar);
  CHECK(LastRefresh(Grown(1, 50, 1e-300), kFar).number == kFar);
}

TEST_CASE(
    "with root_spread, a block is refreshed once in each interval of its group, at a step that its phase determines") {
  const RefreshKeys keys = Grown(1, 20, 0.1, true);
  for (const int64_t phase : {0, 1, 7, 19}) {
    std::vector<int64_t> refreshed;
    for (int64_t t = 1; t <= 600; ++t) {
      const GroupSchedule group = GroupScheduleOf(keys, t, Grafting::kAdam, InitialInverse::kIdentity);
      if (RootTaskOf(group, phase, 0) == RootTask::kCompute) refreshed.push_back(t);
      CHECK(IsDue(group, phase) == (!refreshed.empty() && refreshed.back() == t));
    }
    const std::vector<int64_t> of_group = RefreshesByRule(Grown(1, 20, 0.1), 600);
    REQUIRE(refreshed.size() >= of_group.size() - 1);
    for (size_t i = 0; i < refreshed.size(); ++i) {
      const int64_t interval = IntervalAfter(keys, of_group[i]);
      CHECK(refreshed[i] == of_group[i] + phase * interval / 20);
    }
  }
}

TEST_CASE(
    "with root_async, the roots of a refresh are deferred only if the next refresh is more than root_async steps "
    "later") {
  const RefreshKeys keys = Grown(1, 20, 0.1, false, 4);
  const std::vector<int64_t> refreshes = RefreshesByRule(keys, 400);
  int64_t snapshot_step = 0;
  for (int64_t t = 1; t <= 380; ++t) {
    const GroupSchedule group = GroupScheduleOf(keys, t, Grafting::kAdam, InitialInverse::kIdentity);
    const auto is_refresh = [&](int64_t step) { return std::binary_search(refreshes.begin(), refreshes.end(), step); };
    const bool is_long = is_refresh(t) && IntervalAfter(keys, t) > 4;
    const bool follows = t > 4 && is_refresh(t - 4) && IntervalAfter(keys, t - 4) > 4;
    const RootTask expected = is_long         ? RootTask::kTakeSnapshot
                              : is_refresh(t) ? RootTask::kCompute
                              : follows       ? RootTask::kFromSnapshot
                                              : RootTask::kNone;
    CAPTURE(t);
    const RootTask task = RootTaskOf(group, 0, snapshot_step);
    CHECK(task == expected);
    CHECK(IsRegularTask(group, 0) == (expected != RootTask::kNone));
    snapshot_step = SnapshotStepAfter(task, snapshot_step, t);
  }
}

// Returns the root tasks (such as "5 compute, 10 take, ") of a block that takes part only in `steps`. "take" is
// RootTask::kTakeSnapshot, and "use" is RootTask::kFromSnapshot.
std::string Course(const RefreshKeys& keys, const std::vector<int64_t>& steps) {
  std::string course;
  int64_t snapshot_step = 0;
  for (const int64_t t : steps) {
    const GroupSchedule group = GroupScheduleOf(keys, t, Grafting::kAdam, InitialInverse::kIdentity);
    const RootTask task = RootTaskOf(group, 0, snapshot_step);
    snapshot_step = SnapshotStepAfter(task, snapshot_step, t);
    const char* const names[] = {"none", "compute", "take", "use", "take over"};
    if (task != RootTask::kNone) course += std::to_string(t) + " " + names[static_cast<size_t>(task)] + ", ";
  }
  return course;
}

TEST_CASE("with root_async, the tasks of a block that misses steps follow from the block's own snapshots") {
  const RefreshKeys keys = {.start = 5, .frequency = 5, .async = 2};
  CHECK(Course(keys, {5, 6, 7, 10, 11, 12, 15, 17}) == "5 compute, 10 take, 12 use, 15 take, 17 use, ");
  // The first roots are used at once, even if the block missed the first refresh.
  CHECK(Course(keys, {8, 10, 11, 12, 15, 17}) == "10 compute, 15 take, 17 use, ");
  // Pending roots are used at the block's first step that is at least root_async steps after the snapshot.
  CHECK(Course(keys, {5, 10, 11, 14, 15, 17}) == "5 compute, 10 take, 14 use, 15 take, 17 use, ");
  // If older roots are still pending at a refresh, the new roots are computed and used at once.
  CHECK(Course(keys, {5, 10, 15, 20, 25, 26, 27}) == "5 compute, 10 take, 15 compute, 20 take, 25 compute, ");
  // If the block misses the refresh at which roots are still pending, it uses these roots at its next step.
  CHECK(Course(keys, {5, 10, 16, 20, 22}) == "5 compute, 10 take, 16 use, 20 take, 22 use, ");
  // If another rank rejected a step, the block makes the step again. It then takes the snapshot or computes the roots
  // again, but pending roots that it has used stay in use.
  CHECK(Course(keys, {5, 10, 10, 13, 13}) == "5 compute, 10 take, 10 take, 13 use, ");
  CHECK(Course(keys, {5, 5, 10, 15, 15, 20}) == "5 compute, 5 compute, 10 take, 15 compute, 15 compute, 20 take, ");
  // A block that misses a refresh waits for the next one.
  CHECK(Course(keys, {5, 11, 12, 13, 15, 17}) == "5 compute, 15 take, 17 use, ");
}

TEST_CASE("if the state snapshot_step is an impossible step, the snapshot is not used, and nothing overflows") {
  const RefreshKeys keys = {.start = 5, .frequency = 5, .async = 2};
  const GroupSchedule group = GroupScheduleOf(keys, 12, Grafting::kAdam, InitialInverse::kIdentity);
  CHECK(RootTaskOf(group, 0, INT64_MAX) == RootTask::kNone);
  CHECK(RootTaskOf(group, 0, INT64_MIN) == RootTask::kNone);
}

TEST_CASE(
    "a block with factor matrices is preconditioned from its first refresh on, and a block without factor matrices "
    "never is") {
  const RefreshKeys keys = Grown(30, 10, 0.1, true);
  for (const int64_t phase : {0, 9}) {
    const int64_t first = FirstRefreshOf(keys, phase);
    CHECK(first == 30 + phase * 3 / 10);
    for (const int64_t t : {first - 1, first}) {
      const GroupSchedule adam = GroupScheduleOf(keys, t, Grafting::kAdam, InitialInverse::kIdentity);
      CHECK(BlockScheduleOf(adam, phase, true, 0).rule ==
            (t < first ? DirectionRule::kGraft : DirectionRule::kPrecondition));
      CHECK(BlockScheduleOf(adam, phase, false, 0).rule == DirectionRule::kGraft);
      CHECK(BlockScheduleOf(adam, phase, false, 0).task == RootTask::kNone);
    }
    const GroupSchedule none = GroupScheduleOf(keys, first - 1, Grafting::kNone, InitialInverse::kZero);
    CHECK(BlockScheduleOf(none, phase, true, 0).rule == DirectionRule::kZero);
  }
}

}  // namespace
}  // namespace shampoo

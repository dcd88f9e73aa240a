// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/runner.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace bench {
namespace {

constexpr double kLongStep = 2;         // seconds; a step that takes longer is a long step
constexpr double kLongStepsTotal = 20;  // seconds that all runs of a long step may take together
constexpr double kTimePerRun = 0.02;    // seconds; a step that takes less time has more than min_runs runs
constexpr int kMaxRuns = 1000;

// Returns the number of runs. seconds: the time of one step. A long step has 1 to min_runs runs. Any other step has at
// least min_runs runs, and at most the larger of kMaxRuns and min_runs.
int RunsOf(double seconds, int min_runs) {
  if (seconds > kLongStep) return std::clamp(static_cast<int>(kLongStepsTotal / seconds), 1, min_runs);
  return std::clamp(static_cast<int>(min_runs * kTimePerRun / seconds), min_runs, std::max(kMaxRuns, min_runs));
}

// Returns the shortest times of several runs of time_step, which makes one step and returns its times. The first step
// is a warm-up. It counts only if it takes more than kLongStep.
template <typename TimeStep>
Shortest ShortestOf(int min_runs, const TimeStep& time_step) {
  StepTime time = time_step();
  const int runs = RunsOf(time.device, min_runs);
  if (time.device <= kLongStep) time = time_step();
  Shortest shortest{time.device, 1, time.host};
  while (shortest.runs < runs) {
    time = time_step();
    shortest = {std::min(shortest.seconds, time.device), shortest.runs + 1, std::min(shortest.host_seconds, time.host)};
  }
  return shortest;
}

// Returns the seconds of each phase (Row::phases). Uses a separate session, because the clocks of track_times would
// slow the steps that MeasureRow times.
std::array<double, kPhases> MeasurePhases(const Case& model, Settings settings, int min_runs) {
  settings.track_times = true;
  Session session(model, settings);
  const auto read = [&session] {
    std::array<double, kPhases> seconds{};
    for (size_t i = 0; i < kPhases; ++i) seconds[i] = session.Stat(std::string("seconds.") + kPhaseNames[i]);
    return seconds;
  };
  std::array<double, kPhases> phases;
  phases.fill(INFINITY);
  for (const bool with_roots : {true, false}) {
    ShortestOf(min_runs, [&] {
      const std::array<double, kPhases> before = read();
      const StepTime step = session.TimeStep(with_roots);
      const std::array<double, kPhases> after = read();
      for (size_t i = 0; i < kPhases; ++i) {
        if ((i == kRoots) == with_roots) phases[i] = std::min(phases[i], after[i] - before[i]);
      }
      return step;
    });
  }
  return phases;
}

}  // namespace

Shortest TimeSteps(Session* session, bool with_roots, int min_runs) {
  return ShortestOf(min_runs, [&] { return session->TimeStep(with_roots); });
}

Row MeasureRow(const Case& model, const Settings& settings, int min_runs, bool with_phases) {
  Row row;
  row.model = &model;
  row.settings = settings;
  {
    Session session(model, settings);
    row.work = session.work();
    row.memory = session.memory();
    row.with_roots = TimeSteps(&session, true, min_runs);
    row.ordinary = TimeSteps(&session, false, min_runs);
    row.root_retried = session.Stat("root_retried");
  }
  row.has_phases = with_phases;
  if (with_phases) row.phases = MeasurePhases(model, settings, min_runs);
  return row;
}

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/runner.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace bench {
namespace {

constexpr double kLongStep = 2;      // steps of more seconds have fewer runs
constexpr double kTimeOfLong = 20;   // seconds for all runs of such steps
constexpr double kTimeOfRun = 0.02;  // seconds per requested run: short steps are repeated to find undisturbed ones
constexpr int kMostRuns = 1000;

int RunsOf(double seconds, int min_runs) {
  if (seconds > kLongStep) return std::clamp(static_cast<int>(kTimeOfLong / seconds), 1, min_runs);
  return std::clamp(static_cast<int>(min_runs * kTimeOfRun / seconds), min_runs, std::max(kMostRuns, min_runs));
}

// The first step is a warm-up, but counts if it is long. take makes one step and returns its seconds.
template <typename Take>
Shortest ShortestOf(int min_runs, const Take& take) {
  const double first = take();
  Shortest shortest{first, 1};
  const int runs = RunsOf(first, min_runs);
  if (first <= kLongStep) shortest = {take(), 1};
  while (shortest.runs < runs) shortest = {std::min(shortest.seconds, take()), shortest.runs + 1};
  return shortest;
}

// Uses a separate session, so that whole steps are measured without the inner clocks.
std::array<double, kParts> MeasureParts(const Case& of, Settings settings, int min_runs) {
  settings.track_times = true;
  Session session(of, settings);
  const auto read = [&session] {
    std::array<double, kParts> seconds{};
    for (size_t i = 0; i < kParts; ++i) seconds[i] = session.Stat(std::string("seconds.") + kPartNames[i]);
    return seconds;
  };
  std::array<double, kParts> parts;
  parts.fill(INFINITY);
  for (const bool with_roots : {true, false}) {
    ShortestOf(min_runs, [&] {
      const std::array<double, kParts> before = read();
      const double step = session.TimeStep(with_roots);
      const std::array<double, kParts> after = read();
      for (size_t i = 0; i < kParts; ++i) {
        if ((i == kRoots) == with_roots) parts[i] = std::min(parts[i], after[i] - before[i]);
      }
      return step;
    });
  }
  return parts;
}

}  // namespace

Shortest TimeSteps(Session* session, bool with_roots, int min_runs) {
  return ShortestOf(min_runs, [&] { return session->TimeStep(with_roots); });
}

Row MeasureRow(const Case& of, const Settings& settings, int min_runs, bool with_parts) {
  Row row;
  row.of = &of;
  row.settings = settings;
  {
    Session session(of, settings);
    row.work = session.work();
    row.memory = session.memory();
    row.with_roots = TimeSteps(&session, true, min_runs);
    row.ordinary = TimeSteps(&session, false, min_runs);
    row.root_retried = session.Stat("root_retried");
  }
  row.has_parts = with_parts;
  if (with_parts) row.parts = MeasureParts(of, settings, min_runs);
  return row;
}

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tools/bench/cases.h"
#include "tools/bench/session.h"

namespace bench {

// The shortest times of several runs. A run is one timed step.
struct Shortest {
  double seconds = 0;  // the shortest StepTime::device
  int runs = 0;
  double host_seconds = 0;  // the shortest StepTime::host; it may be of another run than `seconds`
};

inline constexpr size_t kPhases = 5;
inline constexpr const char* kPhaseNames[kPhases] = {"check", "factor_update", "roots", "preconditioning",
                                                     "elementwise"};
inline constexpr size_t kRoots = 2;  // index of the phase that only steps with roots have
inline constexpr size_t kElementwise = 4;

// Measurements of one model with one choice of settings. An ordinary step computes no inverse roots.
struct Row {
  const Case* model = nullptr;
  Settings settings;
  StepWork work;
  Memory memory;
  Shortest ordinary;
  Shortest with_roots;
  double root_retried = 0;  // number of roots for which the first attempt failed, in all steps
  bool has_phases = false;  // whether phases were measured
  // Seconds of each phase, summed over threads: the shortest of several runs. The phase named "roots" is measured in
  // steps with roots, and all other phases are measured in ordinary steps.
  std::array<double, kPhases> phases{};

  // Returns the mean seconds per step if precondition_frequency is `frequency`.
  double Mean(int64_t frequency) const {
    return ordinary.seconds + (with_roots.seconds - ordinary.seconds) / static_cast<double>(frequency);
  }
  double BytesPerParameter() const {
    return static_cast<double>(memory.state + memory.workspace) / static_cast<double>(work.parameters);
  }
};

// Measures a model. Makes at least min_runs runs of each kind of step (ordinary, with roots). If a step of a kind takes
// more than two seconds, makes at most min_runs runs of this kind instead. If with_phases is true, also measures the
// phases, in additional steps.
Row MeasureRow(const Case& model, const Settings& settings, int min_runs, bool with_phases);

// Times steps with or without roots, in as many runs as MeasureRow(), and returns the shortest times.
Shortest TimeSteps(Session* session, bool with_roots, int min_runs);

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tools/bench/cases.h"
#include "tools/bench/session.h"

namespace bench {

// The shortest of a number of runs.
struct Shortest {
  double seconds = 0;
  int runs = 0;
};

inline constexpr size_t kParts = 5;
inline constexpr const char* kPartNames[kParts] = {"check", "factor_update", "roots", "preconditioning", "elementwise"};
inline constexpr size_t kRoots = 2;  // only in steps with roots
inline constexpr size_t kElementwise = 4;

// One case with one setting.
struct Row {
  const Case* of = nullptr;
  Settings settings;
  StepWork work;
  Memory memory;
  Shortest ordinary;
  Shortest with_roots;
  double root_retried = 0;  // roots that needed another rung, in all steps
  // Seconds summed over threads. Roots: in a step with roots. Others: in an ordinary step.
  bool has_parts = false;
  std::array<double, kParts> parts{};

  double Mean(int64_t frequency) const {
    return ordinary.seconds + (with_roots.seconds - ordinary.seconds) / static_cast<double>(frequency);
  }
  double BytesPerParameter() const {
    return static_cast<double>(memory.state + memory.workspace) / static_cast<double>(work.parameters);
  }
};

// min_runs: steps of more than two seconds have fewer runs. with_parts: a second pass measures the parts of steps.
Row MeasureRow(const Case& of, const Settings& settings, int min_runs, bool with_parts);

// Returns the shortest of enough steps.
Shortest TimeSteps(Session* session, bool with_roots, int min_runs);

}  // namespace bench

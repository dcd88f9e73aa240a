// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tools/bench/cases.h"
#include "tools/bench/session.h"

namespace bench {

// The shortest of so many runs.
struct Shortest {
  double seconds = 0;
  int runs = 0;
};

inline constexpr size_t kParts = 5;
inline constexpr const char* kPartNames[kParts] = {"check", "factor_update", "roots", "preconditioning", "elementwise"};
inline constexpr size_t kRoots = 2;  // the one that only steps with roots have
inline constexpr size_t kElementwise = 4;

// One case in one setting.
struct Row {
  const Case* of = nullptr;
  Settings settings;
  StepWork work;
  Memory memory;
  Shortest ordinary;
  Shortest with_roots;
  double root_retried = 0;  // roots that their method could not compute, in all steps
  // Seconds summed over threads: roots of a step with roots, the others of an ordinary one.
  bool has_parts = false;
  std::array<double, kParts> parts{};

  double Mean(int64_t frequency) const {
    return ordinary.seconds + (with_roots.seconds - ordinary.seconds) / static_cast<double>(frequency);
  }
  double BytesPerParameter() const {
    return static_cast<double>(memory.state + memory.workspace) / static_cast<double>(work.parameters);
  }
};

// min_runs: fewer of steps that take more than two seconds. with_parts: a second pass tells the parts apart.
Row MeasureRow(const Case& of, const Settings& settings, int min_runs, bool with_parts);

// The shortest of as many steps as that takes.
Shortest TimeSteps(Session* session, bool with_roots, int min_runs);

}  // namespace bench

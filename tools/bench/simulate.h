// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tools/bench/cases.h"
#include "tools/bench/options.h"
#include "tools/bench/session.h"

namespace bench {

// Efficiency of a step on `threads` threads: time on one thread / (threads * time on `threads` threads). Makespan()
// predicts the time on several threads (schedule_model.h). An ordinary step computes no inverse roots.
struct Efficiency {
  int threads = 0;
  double ordinary = 0;
  double with_roots = 0;
};

struct Simulation {
  const Case* model = nullptr;
  int64_t block = 0;   // max_preconditioner_dim
  int64_t blocks = 0;  // number of blocks of the model
  int64_t distinct_shapes = 0;
  double ordinary_work = 0;    // seconds of an ordinary step on one thread
  double with_roots_work = 0;  // seconds of a step with roots on one thread
  std::vector<Efficiency> efficiency;
};

// Measures a block of each shape on one thread, and predicts from these times the efficiency of a step of the whole
// model on several numbers of threads.
Simulation Simulate(const Case& model, const Settings& settings, int min_runs);

// Simulates each case (default: gpt2 and resnet50) with each block size (default: 1024 and 512), and prints a table.
std::vector<Simulation> RunSimulations(const Options& options);

}  // namespace bench

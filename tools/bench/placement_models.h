// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/cases.h"

namespace bench {

// A model to place on many ranks, and the work of one rank in a training step.
struct Model {
  std::string name;   // on the command line
  std::string title;  // in tables and plots
  Case of;
  int64_t tokens = 0;       // of one rank in a step, which takes 6 flops per parameter and token; 0: not used
  double step_seconds = 0;  // assumed time of a step if tokens is 0
  std::string batch;        // description of one rank's batch
};

// The options for models on the command line. Missing ones are empty or 0.
struct ModelChoice {
  std::string names;
  std::string shapes;
  std::string shapes_file;
  int tokens = 0;
  double step_seconds = 0;
};

// Returns the named models, or all built-in ones if none is named. Parameters that the user specifies are treated as a
// transformer with 8192 tokens for each rank. Ends the program after an error.
std::vector<Model> ChooseModels(const ModelChoice& given);

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/cases.h"

namespace bench {

// A model to be placed on many ranks, and what one rank does in a training step of it.
struct Model {
  std::string name;   // on the command line
  std::string title;  // in tables and plots
  Case of;
  int64_t tokens = 0;       // of one rank in a step, if the step is counted as 6 flops per parameter and token
  double step_seconds = 0;  // else: assumed
  std::string batch;        // of one rank, in words
};

// What the command line says of models; what is left out is empty or 0.
struct ModelChoice {
  std::string names;
  std::string shapes;
  std::string shapes_file;
  int tokens = 0;
  double step_seconds = 0;
};

// The models named; all that this program knows, if nothing is; or parameters that the user gives, counted as a
// transformer with 8192 tokens for each rank. Ends the program at a mistake.
std::vector<Model> ChooseModels(const ModelChoice& given);

}  // namespace bench

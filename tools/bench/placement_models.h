// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/cases.h"

namespace bench {

// A model, and the work of one rank in a training step of it.
struct Model {
  std::string name;   // on the command line
  std::string title;  // in tables and plots
  Case shapes;
  int64_t tokens = 0;       // per rank and step, if the step is estimated as 6 flops per parameter and token
  double step_seconds = 0;  // assumed time otherwise
  std::string batch;        // of one rank, in words
};

// The options that select models. Members are empty or 0 if their options are not used.
struct ModelChoice {
  std::string names;
  std::string shapes;
  std::string shapes_file;
  int tokens = 0;
  double step_seconds = 0;
};

// Returns the models that the options name, or all predefined models if there are no names and no shapes. Shapes are
// one model, which is treated as a transformer with 8192 tokens per rank. Exits after an error.
std::vector<Model> ChooseModels(const ModelChoice& choice);

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/cases.h"

namespace bench {

// A model, and the work of one rank in a training step of the model.
struct Model {
  std::string name;   // name on the command line
  std::string title;  // title in tables and plots
  Case shapes;
  // Tokens of one rank in a step, or 0. If above 0, a step is estimated to take, for each token, 6 flops for each
  // element of the parameters.
  int64_t tokens = 0;
  double step_seconds = 0;  // assumed time of a step if tokens is 0
  std::string batch;        // description of the batch of one rank
};

// The options that select models. Members are empty or 0 if their options are not used.
struct ModelChoice {
  std::string names;
  std::string shapes;
  std::string shapes_file;
  int tokens = 0;
  double step_seconds = 0;
};

// Returns the models that the options name, or all predefined models if the options contain no names and no shapes. All
// shapes together form one model, by default with 8192 tokens per rank. Exits after an error.
std::vector<Model> ChooseModels(const ModelChoice& choice);

}  // namespace bench

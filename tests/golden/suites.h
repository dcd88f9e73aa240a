// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/golden/replay_options.h"
#include "tests/golden/safetensors.h"

namespace shampoo::golden {

struct Case {
  std::filesystem::path path;
  nlohmann::json settings;  // the metadata entry "case" of the file
  TensorFile data;
};

// These functions replay a case and throw std::runtime_error on failure. tests/golden/README.md describes the suites.

// Returns tensors param/<t>/<p>: the value of parameter p after step t. Steps are counted from 1. If the case has
// tensors eval/<t>/<p>, also returns the weights for evaluation under these names.
TensorFile ReplayTrajectory(const Case& recorded, const ReplayOptions& options);
// Return one tensor, which is named "X": the inverse root or the orthogonalized matrix.
TensorFile ReplayMatrixRoot(const Case& recorded, const ReplayOptions& options);
TensorFile ReplayMatrixRootExtra(const Case& recorded, const ReplayOptions& options);
TensorFile ReplayOrthogonalize(const Case& recorded, const ReplayOptions& options);
// Returns a float64 tensor, which is named "loss": for each step, the loss before this step.
TensorFile ReplayTraining(const Case& recorded, const ReplayOptions& options);

}  // namespace shampoo::golden

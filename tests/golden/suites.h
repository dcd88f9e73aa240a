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
  nlohmann::json settings;  // the metadata entry "case"
  TensorFile data;
};

// Each of these functions replays a case of its suite and returns the result tensors. It throws std::runtime_error on
// failure.
TensorFile ReplayTrajectory(const Case& recorded,
                            const ReplayOptions& options);  // param/<t>/<p>: value after step t, counted from 1
TensorFile ReplayMatrixRoot(const Case& recorded, const ReplayOptions& options);  // X
TensorFile ReplayMatrixRootExtra(const Case& recorded, const ReplayOptions& options);
TensorFile ReplayOrthogonalize(const Case& recorded, const ReplayOptions& options);  // X
TensorFile ReplayTraining(const Case& recorded, const ReplayOptions& options);       // loss, f64, one entry per step

}  // namespace shampoo::golden

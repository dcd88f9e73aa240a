// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/golden/safetensors.h"

namespace shampoo::golden {

struct Case {
  std::filesystem::path path;
  nlohmann::json settings;  // the metadata entry "case"
  TensorFile data;
};

// Each returns the tensors that its suite is judged by; throws std::runtime_error where that was not possible.
// threads: 0 leaves the number to the library.
TensorFile ReplayTrajectory(const Case& recorded, int32_t threads);       // param/<t>/<p>: value after step t, t from 1
TensorFile ReplayMatrixRoot(const Case& recorded, int32_t threads);       // X
TensorFile ReplayMatrixRootExtra(const Case& recorded, int32_t threads);  // X
TensorFile ReplayTraining(const Case& recorded, int32_t threads);         // loss, f64, one entry per step

}  // namespace shampoo::golden

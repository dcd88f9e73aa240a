// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/golden/how.h"
#include "tests/golden/safetensors.h"

namespace shampoo::golden {

struct Case {
  std::filesystem::path path;
  nlohmann::json settings;  // the metadata entry "case"
  TensorFile data;
};

// Each returns the tensors that its suite is judged by; throws std::runtime_error where that was not possible.
TensorFile ReplayTrajectory(const Case& recorded, const How& how);       // param/<t>/<p>: value after step t, t from 1
TensorFile ReplayMatrixRoot(const Case& recorded, const How& how);       // X
TensorFile ReplayMatrixRootExtra(const Case& recorded, const How& how);  // X
TensorFile ReplayTraining(const Case& recorded, const How& how);         // loss, f64, one entry per step

}  // namespace shampoo::golden

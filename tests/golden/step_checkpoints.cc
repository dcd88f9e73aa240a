// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/step_checkpoints.h"

#include <string>

namespace shampoo::golden {

StepCheckpoints::StepCheckpoints(const std::filesystem::path& root, const Case& recorded)
    : folder_(root / recorded.path.stem()) {}

void StepCheckpoints::Save(int64_t t, const TensorFile& params, bool writes_params, ReplayRanks* optimizer) const {
  if (writes_params) {
    std::filesystem::remove_all(Directory(t));
    std::filesystem::create_directories(folder_);
    WriteSafetensors(File(t), params);
  }
  optimizer->Save(Directory(t).string());
}

TensorFile StepCheckpoints::Params(int64_t t) const { return ReadSafetensors(File(t)); }

void StepCheckpoints::Load(int64_t t, ReplayRanks* optimizer) const { optimizer->Load(Directory(t).string()); }

}  // namespace shampoo::golden

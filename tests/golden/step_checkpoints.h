// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "tests/golden/replay_ranks.h"
#include "tests/golden/suites.h"

namespace shampoo::golden {

// Checkpoints of a case after its steps. shampoo_save writes the one after step t to the folder <root>/<case>/<t>. The
// file <root>/<case>/<t>.safetensors has the parameters, as tensors param/<t>/<p>.
class StepCheckpoints {
 public:
  StepCheckpoints(const std::filesystem::path& root, const Case& recorded);

  // Saves a checkpoint after step t. writes_params: also writes these parameters, and first removes the files of an
  // earlier run. It is true for only one process of a job.
  void Save(int64_t t, const TensorFile& params, bool writes_params, ReplayRanks* optimizer) const;
  TensorFile Params(int64_t t) const;
  void Load(int64_t t, ReplayRanks* optimizer) const;

 private:
  std::filesystem::path Directory(int64_t t) const { return folder_ / std::to_string(t); }
  std::filesystem::path File(int64_t t) const { return folder_ / (std::to_string(t) + ".safetensors"); }

  std::filesystem::path folder_;
};

}  // namespace shampoo::golden

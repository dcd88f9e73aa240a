// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "tests/golden/replay_ranks.h"
#include "tests/golden/suites.h"

namespace shampoo::golden {

// Saves one checkpoint for each step of a case, and loads these checkpoints. After step t, shampoo_save writes the
// states to the folder <root>/<case>/<t>. The file <root>/<case>/<t>.safetensors has parameter number p as the
// tensor param/<t>/<p>. If the case has weights for evaluation (exported averages), the file also has the tensors
// eval/<t>/<p>.
class StepCheckpoints {
 public:
  StepCheckpoints(const std::filesystem::path& root, const Case& recorded);

  // Saves a checkpoint after step t. If writes_params is true, removes the checkpoint of an earlier run first, and
  // writes params. If ranks are processes, writes_params is true on one process only.
  void Save(int64_t t, const TensorFile& params, bool writes_params, ReplayRanks* optimizer) const;
  TensorFile Params(int64_t t) const;
  void Load(int64_t t, ReplayRanks* optimizer) const;

 private:
  std::filesystem::path Directory(int64_t t) const { return folder_ / std::to_string(t); }
  std::filesystem::path File(int64_t t) const { return folder_ / (std::to_string(t) + ".safetensors"); }

  std::filesystem::path folder_;
};

}  // namespace shampoo::golden

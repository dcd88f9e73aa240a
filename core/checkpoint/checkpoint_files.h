// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace shampoo {

// The files of a checkpoint. The checkpoints of a directory are numbered; each save uses a larger number:
//   checkpoint-000007.json                                      the index; without it the checkpoint does not exist
//   checkpoint-000007.rank-00002-of-00008.safetensors           states of the blocks of one rank
//   checkpoint-000007.rank-00002-of-00008.part-2.safetensors    states of more blocks of this rank
// While a file is written, ".tmp" is appended to its name.
inline constexpr char kTemporary[] = ".tmp";
inline constexpr int64_t kLargestNumber = int64_t{1} << 53;
std::string IndexName(int64_t number);
std::string StatesName(int64_t number, int rank, int world, int part);  // part: from 1

// Returns the number of the checkpoint that a file name belongs to, or -1 if it belongs to none. *is_index: whether the
// file is a complete index.
int64_t CheckpointNumber(std::string_view name, bool* is_index);

// A checkpoint in a directory.
struct FoundCheckpoint {
  int64_t number = 0;
  bool complete = false;           // its index exists
  std::vector<std::string> names;  // its files
};
// Lists the checkpoints of a directory by descending number.
Status FindCheckpoints(const std::string& directory, std::vector<FoundCheckpoint>* found);

// Removes a checkpoint. Removes the index first, so that after a crash the remaining files are not a checkpoint.
Status RemoveCheckpoint(const std::string& directory, const FoundCheckpoint& checkpoint);

}  // namespace shampoo

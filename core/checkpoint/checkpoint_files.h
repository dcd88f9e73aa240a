// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace shampoo {

// The names of the files of a checkpoint. The number of a new checkpoint is larger than the numbers of all checkpoints
// that are already in the directory. For example, checkpoint 7 may have these files:
//   checkpoint-000007.json                                      the index; without it the checkpoint is incomplete
//   checkpoint-000007.rank-00002-of-00008.safetensors           states of blocks that rank 2 has saved
//   checkpoint-000007.rank-00002-of-00008.part-2.safetensors    states of more blocks that rank 2 has saved
// While a file is written, ".tmp" is appended to its name.
inline constexpr char kTemporary[] = ".tmp";
inline constexpr int64_t kLargestNumber = int64_t{1} << 53;  // the largest number of a checkpoint
std::string IndexName(int64_t number);
// part: at least 1. The name contains ".part-<part>" only if part is above 1.
std::string StatesName(int64_t number, int rank, int world, int part);

// Returns the number of the checkpoint that a file name belongs to, or -1 if the name belongs to no checkpoint. Sets
// *is_index to whether the name is that of an index without ".tmp".
int64_t CheckpointNumber(std::string_view name, bool* is_index);

// A checkpoint in a directory.
struct FoundCheckpoint {
  int64_t number = 0;
  bool complete = false;           // whether the index exists
  std::vector<std::string> names;  // the names of its files
};
// Lists the checkpoints of a directory by descending number.
Status FindCheckpoints(const std::string& directory, std::vector<FoundCheckpoint>* found);

// Removes a checkpoint. Removes the index first: if the process then crashes, the remaining files are an incomplete
// checkpoint, which is not loaded.
Status RemoveCheckpoint(const std::string& directory, const FoundCheckpoint& checkpoint);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace shampoo {

// Names of the files of a checkpoint. All checkpoints of a directory have a number, which grows from save to save:
//   checkpoint-000007.json                                      its index; without it there is no checkpoint
//   checkpoint-000007.rank-00002-of-00008.safetensors           states of one rank's blocks
//   checkpoint-000007.rank-00002-of-00008.part-2.safetensors    more of them
// While it is written each has ".tmp" behind its name.
inline constexpr char kTemporary[] = ".tmp";
inline constexpr int64_t kLargestNumber = int64_t{1} << 53;
std::string IndexName(int64_t number);
std::string StatesName(int64_t number, int rank, int world, int part);  // part: from 1

// The number of the checkpoint that a name is of; -1: a stranger's. is_index: of a finished one.
int64_t NumberOf(std::string_view name, bool* is_index);

// What a directory has, by falling number.
struct FoundCheckpoint {
  int64_t number = 0;
  bool complete = false;  // its index is there
  std::vector<std::string> names;
};
Status FindCheckpoints(const std::string& directory, std::vector<FoundCheckpoint>* found);

// Removes it, its index first: what is left of it is then no checkpoint, whenever the machine stops.
Status RemoveCheckpoint(const std::string& directory, const FoundCheckpoint& checkpoint);

}  // namespace shampoo

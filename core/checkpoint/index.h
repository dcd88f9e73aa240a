// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/status.h"
#include "core/checkpoint/block_place.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/index_text.h"
#include "core/checkpoint/json.h"

namespace shampoo {

// The index of a checkpoint: what was saved, and where it is. docs/checkpoints.md has the format.

inline constexpr int64_t kCheckpointFormat = 1;  // the latest; all earlier ones can be read

struct StoredGroup {
  int64_t step = 0;
  std::vector<std::pair<std::string, std::string>> config;  // as it was in force

  const std::string* Value(const std::string& key) const;  // nullptr: not told
  bool operator==(const StoredGroup&) const = default;
};

struct StoredParam {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::kF32;
  int group = 0;

  int64_t elements() const;  // 0 where a dim is
};

struct StoredFile {
  std::string name;
  int64_t bytes = 0;
  uint64_t start_checksum = 0;  // of all before the tensors
};

struct StoredEntry {
  std::string state;  // "factor.0", "momentum", ...
  Dtype dtype = Dtype::kF32;
  uint64_t checksum = 0;
};

struct StoredBlock {
  std::string key;  // its entries are the tensors "<key>/<state>" of its file
  int param = 0;
  int file = 0;
  BlockPlace place;
  std::vector<StoredEntry> entries;

  const StoredEntry* Find(std::string_view state) const;  // nullptr: there is none
  bool HasFactors() const;                                // it was saved with what only preconditioned blocks have
};

// "<key>/<state>"
std::string TensorName(const StoredBlock& block, std::string_view state);

struct CheckpointIndex {
  std::string path;  // of the index itself
  std::string directory;
  uint64_t checksum = 0;  // of the index
  int64_t format = 0;
  std::string library;  // its version
  int64_t world = 0;    // ranks that saved
  std::vector<StoredGroup> groups;
  std::vector<StoredParam> params;
  std::vector<StoredFile> files;
  std::vector<StoredBlock> blocks;  // those that were asked for

  std::string PathOf(const StoredFile& file) const { return PathIn(directory, file.name); }
};

// The members of the arrays, as JSON: ranks tell their own, and rank 0 writes them.
std::string TextOf(const StoredGroup& group);
std::string TextOf(const StoredParam& param);
std::string TextOf(const StoredFile& file);
std::string TextOf(const StoredBlock& block, const std::string& param, const std::string& file);

// And back; what is malformed fails.
Status ParseGroup(const Json& member, StoredGroup* group);
Status ParseParam(const Json& member, StoredParam* param);

// Which blocks of an index a rank needs: a large job's are more than one rank wants to hold.
using WantsBlock = std::function<bool(const CheckpointIndex& index, const StoredBlock& block)>;

// Reads and checks an index. Failures name it, and what is wrong.
Status ReadIndex(const std::string& path, const WantsBlock& wants, CheckpointIndex* index);
// What stands before an index's own text, and behind it: a checksum of all that comes after it.
std::string IndexStart(uint64_t checksum);
inline constexpr char kIndexEnd[] = "}\n";
// The whole text, whatever its checksum. To be fuzzed.
Status ParseIndex(IndexText* text, const WantsBlock& wants, CheckpointIndex* index);

}  // namespace shampoo

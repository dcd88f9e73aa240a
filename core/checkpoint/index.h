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
#include "core/checkpoint/file.h"
#include "core/checkpoint/index_text.h"
#include "core/checkpoint/json.h"
#include "core/plan/block_place.h"

namespace shampoo {

// The index of a checkpoint lists what was saved, and in which files. docs/checkpoints.md describes the format.

inline constexpr int64_t kCheckpointFormat = 1;  // the version that a save writes, and the latest that a load reads

struct StoredGroup {
  int64_t step = 0;                                         // the step counter of the group
  std::vector<std::pair<std::string, std::string>> config;  // the hyper-parameters when the group was saved

  const std::string* Value(const std::string& key) const;  // returns nullptr if the key is not stored
  bool operator==(const StoredGroup&) const = default;
};

struct StoredParam {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::kF32;
  int group = 0;  // index in CheckpointIndex::groups; in a description (description.h): index in the optimizer's groups

  int64_t elements() const;  // 0 if a dim is 0
};

struct StoredFile {
  std::string name;
  int64_t bytes = 0;
  uint64_t start_checksum = 0;  // checksum of the bytes before the tensors
};

struct StoredEntry {  // one saved state of a block
  std::string state;  // "factor.0", "momentum", ...
  Dtype dtype = Dtype::kF32;
  uint64_t checksum = 0;
};

struct StoredBlock {
  std::string key;  // the entries of the block are the tensors "<key>/<state>" of the file; see TensorName()
  int param = 0;    // index in CheckpointIndex::params
  int file = 0;     // index in CheckpointIndex::files
  BlockPlace place;
  std::vector<StoredEntry> entries;

  const StoredEntry* Find(std::string_view state) const;  // returns nullptr if there is no such entry
  bool HasFactors() const;                                // whether the block was saved with factor matrices
};

// Returns "<key>/<state>".
std::string TensorName(const StoredBlock& block, std::string_view state);

struct CheckpointIndex {
  std::string path;  // the path of the index file
  std::string directory;
  uint64_t checksum = 0;  // the checksum in the index file
  int64_t format = 0;
  std::string library;  // version of the library that saved the checkpoint
  int64_t world = 0;    // number of ranks that saved the checkpoint
  std::vector<StoredGroup> groups;
  std::vector<StoredParam> params;
  std::vector<StoredFile> files;
  std::vector<StoredBlock> blocks;  // the blocks that the filter of ReadIndex() accepted

  std::string PathOf(const StoredFile& file) const { return PathIn(directory, file.name); }
};

// Return a group, parameter, file or block as JSON: as a member of an array of the index. All ranks send members to
// rank 0, which writes the index. For a block, `param` and `file` are the names of its parameter and its file.
std::string ToJson(const StoredGroup& group);
std::string ToJson(const StoredParam& param);
std::string ToJson(const StoredFile& file);
std::string ToJson(const StoredBlock& block, const std::string& param, const std::string& file);

// Parse a member of the array of groups or of the array of parameters. Fail if the member is malformed.
Status ParseGroup(const Json& member, StoredGroup* group);
Status ParseParam(const Json& member, StoredParam* param);

// Returns whether ReadIndex() keeps a block. A rank keeps only the blocks that it needs: a large job saves very many
// blocks.
using BlockFilter = std::function<bool(const CheckpointIndex& index, const StoredBlock& block)>;

// Reads and checks an index. Errors name its path.
Status ReadIndex(const std::string& path, const BlockFilter& filter, CheckpointIndex* index);
// Returns the first bytes of an index file, which contain the checksum of all later bytes.
std::string IndexStart(uint64_t checksum);
inline constexpr char kIndexEnd[] = "}\n";  // the last bytes of an index file
// Parses the text of an index, and does not check the checksum. The fuzzer calls this function.
Status ParseIndex(IndexText* text, const BlockFilter& filter, CheckpointIndex* index);

}  // namespace shampoo

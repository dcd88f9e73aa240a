// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/status.h"
#include "core/checkpoint/index.h"
#include "core/checkpoint/safetensors.h"
#include "core/state/entries.h"

namespace shampoo {

// Reads entries of a checkpoint. An entry is one saved state of one block. An error has the code SHAMPOO_E_IO, and
// names the file and, if the error is in an entry, the entry.
class StatesReader {
 public:
  explicit StatesReader(const CheckpointIndex& index);

  // Checks that a file exists, and that its size and header match the index. file: position in CheckpointIndex::files.
  Status CheckFile(int file);
  // Checks that an entry has `bytes` bytes, and that its checksum is that of the index.
  Status Check(const StoredBlock& block, const StoredEntry& entry, int64_t bytes);
  // Calls Check() for an elementwise state, which has one element for each element of its block.
  Status CheckElementwise(const StoredBlock& block, const StoredEntry& entry) {
    return Check(block, entry, block.place.elements() * static_cast<int64_t>(SizeOf(entry.dtype)));
  }
  // Reads an entry into `memory`, the memory of `state`. Checks the size of the entry before it writes to `memory`, but
  // the checksum only afterwards. After a failure the state may therefore be partly overwritten.
  Status Load(const StoredBlock& block, const StoredEntry& entry, const StateEntry& state, char* memory);
  // Reads elements [first, first + count) of an entry, in the order of the file. Does not check the checksum: call
  // Check() for the entry first.
  Status ReadRange(const StoredBlock& block, const StoredEntry& entry, int64_t first, int64_t count, void* to);
  // Reads an elementwise state of elements [first, first + count) of a flattened parameter from `blocks`, which are
  // saved blocks of this parameter. state: the name of the state. All `blocks` must have the state in the same dtype.
  // `to` has `count` elements. The function does not write those that are in none of the blocks.
  Status ReadWindow(std::span<const StoredBlock* const> blocks, std::string_view state, int64_t first, int64_t count,
                    char* to);

  // Reads an entry in pieces, and calls visit(data, bytes) for each piece, in order. Checks the checksum after the last
  // piece.
  using Visit = std::function<Status(const char* data, size_t bytes)>;
  Status ForEachPiece(const StoredBlock& block, const StoredEntry& entry, const Visit& visit);

 private:
  struct OpenFile {
    int number;  // index in CheckpointIndex::files
    File file;
    int64_t start_bytes = 0;                              // number of bytes before the tensors
    std::unordered_map<std::string, TensorSpec> tensors;  // by name
    int64_t read_ahead_end = 0;                           // the system was asked to read the file up to this position
  };
  // The location of an entry.
  struct Found {
    OpenFile* file;
    int64_t at;  // position in the file
    int64_t bytes;
  };
  Status OpenStates(int number, OpenFile** out);
  Status ReadStart(const StoredFile& stored, OpenFile* open);
  // Reads `bytes` bytes at position `at` into buffer_. Reads ahead, because most files are read from their start to
  // their end.
  Status ReadPiece(OpenFile* open, int64_t at, size_t bytes);
  Status Find(const StoredBlock& block, const StoredEntry& entry, Found* found);
  Status Fail(const StoredBlock& block, const StoredEntry& entry, const std::string& why) const;

  const CheckpointIndex& index_;
  std::list<OpenFile> open_;  // most recently used first
  std::vector<char> buffer_;
  std::vector<char> range_;  // the elements of a block within a window
};

}  // namespace shampoo

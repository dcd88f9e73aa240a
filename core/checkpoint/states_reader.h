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

// Reads entries of a checkpoint. Errors are SHAMPOO_E_IO and name the file and the entry.
class StatesReader {
 public:
  explicit StatesReader(const CheckpointIndex& index);

  // Checks that a file exists, and that its size and header are those that were written.
  Status CheckFile(int file);
  // Checks the size and the checksum of an entry.
  Status Check(const StoredBlock& block, const StoredEntry& entry, int64_t bytes);
  // Does the same for an elementwise state, which has one element for each element of its block.
  Status CheckElementwise(const StoredBlock& block, const StoredEntry& entry) {
    return Check(block, entry, block.place.elements() * static_cast<int64_t>(SizeOf(entry.dtype)));
  }
  // Copies an entry to a state of the same block, and checks the entry at the same time. After a failure the state may
  // be partly overwritten.
  Status Load(const StoredBlock& block, const StoredEntry& entry, const StateEntry& state, char* memory);
  // Reads elements of an entry that has passed Check(), in the order of the file.
  Status ReadRange(const StoredBlock& block, const StoredEntry& entry, int64_t first, int64_t count, void* to);
  // Reads elements [first, first + count) of a flattened parameter from blocks that all have this elementwise state in
  // the same dtype. Elements that no block has are not written.
  Status ReadWindow(std::span<const StoredBlock* const> blocks, std::string_view state, int64_t first, int64_t count,
                    char* to);

  // Calls visit(data, bytes) for all bytes of an entry, in order. The checksum is checked at the end.
  using Visit = std::function<Status(const char* data, size_t bytes)>;
  Status ForEachPiece(const StoredBlock& block, const StoredEntry& entry, const Visit& visit);

 private:
  struct OpenFile {
    int number;
    File file;
    int64_t start_bytes = 0;
    std::unordered_map<std::string, TensorSpec> tensors;
    int64_t read_ahead_end = 0;  // the system was asked to read up to here
  };
  struct Found {
    OpenFile* file;
    int64_t at;
    int64_t bytes;
  };
  Status OpenStates(int number, OpenFile** out);
  Status ReadStart(const StoredFile& stored, OpenFile* open);
  // Reads bytes to buffer_. Reads ahead, because most files are read from their start to their end.
  Status ReadPiece(OpenFile* open, int64_t at, size_t bytes);
  Status Find(const StoredBlock& block, const StoredEntry& entry, Found* found);
  Status Fail(const StoredBlock& block, const StoredEntry& entry, const std::string& why) const;

  const CheckpointIndex& index_;
  std::list<OpenFile> open_;  // most recently used first
  std::vector<char> buffer_;
  std::vector<char> range_;  // the elements of a block within a window
};

}  // namespace shampoo

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

// Reads entries of a checkpoint. Failures are SHAMPOO_E_IO and name the file and the entry.
class StatesReader {
 public:
  explicit StatesReader(const CheckpointIndex& index);

  // Whether a file is there, and its size and what stands before its tensors are those that were written.
  Status CheckFile(int file);
  // Whether an entry has so many bytes, and they are those that were written.
  Status Check(const StoredBlock& block, const StoredEntry& entry, int64_t bytes);
  // The same of a state that has an element for each of its block.
  Status CheckElementwise(const StoredBlock& block, const StoredEntry& entry) {
    return Check(block, entry, block.place.elements() * static_cast<int64_t>(SizeOf(entry.dtype)));
  }
  // The same, and brings them to a state of the same block, piece by piece: after a failure some may be there.
  Status Load(const StoredBlock& block, const StoredEntry& entry, const StateEntry& state, char* memory);
  // Elements of an entry that has passed Check, in the order of its file.
  Status ReadRange(const StoredBlock& block, const StoredEntry& entry, int64_t first, int64_t count, void* to);
  // Elements [first, first + count) of a flattened parameter, put together from blocks that have this elementwise
  // state, in one dtype. Elements of no block are left as they are.
  Status ReadWindow(std::span<const StoredBlock* const> blocks, std::string_view state, int64_t first, int64_t count,
                    char* to);

  // visit(bytes, how many) for an entry, from its first to its last; what it tells is checked at the end.
  using Visit = std::function<Status(const char* data, size_t bytes)>;
  Status ForEachPiece(const StoredBlock& block, const StoredEntry& entry, const Visit& visit);

 private:
  struct OpenFile {
    int number;
    File file;
    int64_t start_bytes = 0;
    std::unordered_map<std::string, TensorSpec> tensors;
    int64_t begun = 0;  // the system reads up to here
  };
  struct Found {
    OpenFile* file;
    int64_t at;
    int64_t bytes;
  };
  Status OpenStates(int number, OpenFile** out);
  Status ReadStart(const StoredFile& stored, OpenFile* open);
  // Bytes of buffer_, from a file that is mostly read from its start to its end.
  Status ReadPiece(OpenFile* open, int64_t at, size_t bytes);
  Status Find(const StoredBlock& block, const StoredEntry& entry, Found* found);
  Status Fail(const StoredBlock& block, const StoredEntry& entry, const std::string& why) const;

  const CheckpointIndex& index_;
  std::list<OpenFile> open_;  // the last used first
  std::vector<char> buffer_;
  std::vector<char> part_;  // of a block, within a window
};

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/checkpoint/index.h"
#include "core/checkpoint/progress.h"
#include "core/checkpoint/safetensors.h"
#include "core/state/entries.h"
#include "core/state/optimizer_state.h"

namespace shampoo {

// A block that this rank saves.
struct BlockToSave {
  const OptimizerState* optimizer = nullptr;
  std::vector<const StateEntry*> entries;
  std::string param;   // name of the parameter
  StoredBlock stored;  // StatesWriter sets stored.file and stored.entries

  int64_t bytes() const;
};

// Writes the files of one rank. Each file is written under a temporary name, synced and then renamed.
class StatesWriter {
 public:
  // The limits of one file. A file has at least one block, even if this block exceeds the limits.
  struct Limits {
    int64_t bytes = (int64_t{4} << 30) - (int64_t{64} << 20);  // 4 GiB minus 64 MiB for the header
    size_t entries = 1 << 14;                                  // limits the header, which a load reads as a whole
    // The name of each tensor begins with StoredBlock::key. name_bytes limits the total length of these
    // keys. JSON escapes can make the keys six times as long in the header.
    size_t name_bytes = size_t{8} << 20;
  };

  // number: the number of the checkpoint.
  StatesWriter(std::string directory, int64_t number, int rank, int world, const Limits& limits);
  Status Write(std::vector<BlockToSave>* blocks, Progress* progress);
  const std::vector<StoredFile>& files() const { return files_; }
  // Removes the files that this object has written, if possible.
  void Undo() const;

 private:
  Status WriteFile(std::span<BlockToSave> blocks, Progress* progress);

  std::string directory_;
  int64_t number_;
  int rank_, world_;
  Limits limits_;
  std::vector<char> buffer_;
  // The final and the temporary path of a file. They are stored for Undo(), which must not allocate memory.
  struct Begun {
    std::string path, temporary;
  };
  std::vector<Begun> begun_;       // all files that WriteFile() has begun to write
  std::vector<StoredFile> files_;  // the complete files
};

// Returns the description of a state for the header of a safetensors file. Its `begin` is 0: the caller moves `begin`
// and `end` if other tensors precede the state in the file.
TensorSpec SpecOf(const std::string& name, const StateEntry& entry);

}  // namespace shampoo

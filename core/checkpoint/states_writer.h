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
  std::string param;
  StoredBlock stored;  // its file, and checksums, are told by the writer

  int64_t bytes() const;
};

// Writes the files of one rank: each under a temporary name, synced, then renamed.
class StatesWriter {
 public:
  // A file has at least one block, and then no more than so many bytes and entries.
  struct Limits {
    int64_t bytes = (int64_t{4} << 30) - (int64_t{64} << 20);  // with room for a header below 4 GiB
    size_t entries = 1 << 14;                                  // a header is read as a whole
    size_t name_bytes = size_t{8} << 20;                       // as it is written; in JSON up to six times that
  };

  StatesWriter(std::string directory, int64_t number, int rank, int world, const Limits& limits);
  Status Write(std::vector<BlockToSave>* blocks, Progress* progress);
  const std::vector<StoredFile>& files() const { return files_; }
  // Takes away what has been written, as far as that can be done.
  void Undo() const;

 private:
  Status WriteFile(std::span<BlockToSave> blocks, Progress* progress);

  std::string directory_;
  int64_t number_;
  int rank_, world_;
  Limits limits_;
  std::vector<char> buffer_;
  // Of files that were begun: made with them, as there may be no memory to undo with.
  struct Begun {
    std::string path, temporary;
  };
  std::vector<Begun> begun_;
  std::vector<StoredFile> files_;
};

// Elements of an entry as a file has them.
TensorSpec SpecOf(const std::string& name, const StateEntry& entry);

}  // namespace shampoo

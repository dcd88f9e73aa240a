// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "capi/tools/ckpt/progress_line.h"
#include "capi/tools/ckpt/source.h"
#include "core/checkpoint/states_reader.h"

namespace shampoo::ckpt {

// Who wants the elements of all entries: Begin, Add from the first to the last, End, of one entry after another.
class EntryVisitor {
 public:
  virtual ~EntryVisitor() = default;
  virtual void Begin(const StoredBlock& block, const StoredEntry& entry) = 0;
  virtual void Add(const char* data, size_t bytes) = 0;
  virtual void End(bool damaged) = 0;  // what was added is then in part, or not, what was saved
};

// Goes through all entries of a checkpoint in the order of its files, past those that are damaged.
class Scan {
 public:
  // What is wrong, as it is found.
  using Tell = std::function<void(const std::string& text)>;
  Scan(const CheckpointIndex& params, ProgressLine* progress, Tell tell);

  // visitor: may be nullptr.
  void Run(const Batch& batch, EntryVisitor* visitor);
  // After all batches: files of which no block was met.
  void CheckOtherFiles();

  int64_t entries() const { return entries_; }
  int64_t damaged_entries() const { return damaged_entries_; }  // those of lost files, too
  int64_t lost_files() const { return lost_files_; }
  bool ok() const { return damaged_entries_ == 0 && lost_files_ == 0; }

 private:
  enum class FileState : char { kUnknown, kFine, kLost };
  bool IsFine(StatesReader* reader, int file);
  bool ReadEntry(StatesReader* reader, const StoredBlock& block, const StoredEntry& entry, EntryVisitor* visitor);

  const CheckpointIndex& params_;
  ProgressLine* progress_;
  Tell tell_;
  std::vector<FileState> files_;
  int64_t entries_ = 0, damaged_entries_ = 0, lost_files_ = 0;
};

}  // namespace shampoo::ckpt

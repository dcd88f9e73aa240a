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

// Receives the elements of all entries of a checkpoint. An entry is one saved state of one block. For each entry, Scan
// calls Begin() once, then Add() for each piece of the entry in sequence, and then End() once.
class EntryVisitor {
 public:
  virtual ~EntryVisitor() = default;
  virtual void Begin(const StoredBlock& block, const StoredEntry& entry) = 0;
  virtual void Add(const char* data, size_t bytes) = 0;
  virtual void End(bool damaged) = 0;  // if damaged is true, the added bytes may be incomplete or wrong
};

// Reads all entries of a checkpoint, one batch (source.h) after another. A damaged entry does not stop the scan. Within
// a batch, entries are read in the sequence in which files store them.
class Scan {
 public:
  // Receives the message about a damaged entry or file as soon as the scan finds the damage.
  using OnDamage = std::function<void(const std::string& text)>;
  Scan(const CheckpointIndex& outline, ProgressLine* progress, OnDamage on_damage);

  // Reads the entries of one batch. If `visitor` is nullptr, only checks them.
  void Run(const Batch& batch, EntryVisitor* visitor);
  // Checks the files that Run() has not checked. Call CheckOtherFiles() after Run() has read all batches.
  void CheckOtherFiles();

  // Returns the number of entries in all batches that Run() has read, including damaged entries.
  int64_t entries() const { return entries_; }
  int64_t damaged_entries() const { return damaged_entries_; }  // including all entries of lost files
  // Returns the number of lost files. A file is lost if it cannot be read, or if its size or header does not match the
  // index.
  int64_t lost_files() const { return lost_files_; }
  bool ok() const { return damaged_entries_ == 0 && lost_files_ == 0; }

 private:
  enum class FileState : char { kUnknown, kReadable, kLost };
  bool IsReadable(StatesReader* reader, int file);
  bool ReadEntry(StatesReader* reader, const StoredBlock& block, const StoredEntry& entry, EntryVisitor* visitor);

  const CheckpointIndex& outline_;
  ProgressLine* progress_;
  OnDamage on_damage_;
  std::vector<FileState> files_;
  int64_t entries_ = 0, damaged_entries_ = 0, lost_files_ = 0;
};

}  // namespace shampoo::ckpt

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/tools/ckpt/scan.h"

#include <utility>

namespace shampoo::ckpt {

Scan::Scan(const CheckpointIndex& outline, ProgressLine* progress, OnDamage on_damage)
    : outline_(outline),
      progress_(progress),
      on_damage_(std::move(on_damage)),
      files_(outline.files.size(), FileState::kUnknown) {
  for (const StoredFile& file : outline.files) progress->Expect(file.bytes);
}

void Scan::Run(const Batch& batch, EntryVisitor* visitor) {
  StatesReader reader(batch.index);
  for (const StoredBlock& block : batch.index.blocks) {
    const bool readable = IsReadable(&reader, block.file);
    for (const StoredEntry& entry : block.entries) {
      ++entries_;
      if (visitor != nullptr) visitor->Begin(block, entry);
      const bool damaged = !readable || !ReadEntry(&reader, block, entry, visitor);
      if (visitor != nullptr) visitor->End(damaged);
      if (damaged) ++damaged_entries_;
    }
  }
}

void Scan::CheckOtherFiles() {
  StatesReader reader(outline_);
  for (size_t file = 0; file < files_.size(); ++file) IsReadable(&reader, static_cast<int>(file));
}

bool Scan::IsReadable(StatesReader* reader, int file) {
  FileState& state = files_[static_cast<size_t>(file)];
  if (state == FileState::kUnknown) {
    const Status status = reader->CheckFile(file);
    state = status.ok() ? FileState::kReadable : FileState::kLost;
    if (!status.ok()) {
      ++lost_files_;
      progress_->Clear();
      on_damage_(status.message());
    }
  }
  return state == FileState::kReadable;
}

bool Scan::ReadEntry(StatesReader* reader, const StoredBlock& block, const StoredEntry& entry, EntryVisitor* visitor) {
  const Status status = reader->ForEachPiece(block, entry, [&](const char* data, size_t bytes) -> Status {
    progress_->Add(static_cast<int64_t>(bytes));
    if (visitor != nullptr) visitor->Add(data, bytes);
    return {};
  });
  if (status.ok()) return true;
  progress_->Clear();
  on_damage_(status.message());
  return false;
}

}  // namespace shampoo::ckpt

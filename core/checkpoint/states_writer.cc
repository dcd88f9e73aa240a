// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/states_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/hash.h"
#include "core/checkpoint/checkpoint_files.h"
#include "core/plan/block.h"

namespace shampoo {
namespace {

// The size of StatesWriter::buffer_. The buffer is large enough for a row of the largest factor matrix, and small
// enough that packed data is still in the cache when it is hashed and written.
constexpr size_t kBufferBytes = size_t{1} << 20;
static_assert(static_cast<size_t>(kLargestBlockDim) * sizeof(double) <= kBufferBytes);

// Writes a file sequentially through a buffer.
class Appender {
 public:
  Appender(File* file, std::vector<char>* buffer, Progress* progress)
      : file_(file), buffer_(buffer), progress_(progress) {}

  Status Append(const char* data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
      SHAMPOO_RETURN_IF_ERROR(MakeRoom(1));
      const size_t part = std::min(bytes - done, room());
      std::memcpy(end(), data + done, part);
      used_ += part;
      done += part;
    }
    return {};
  }

  Status AppendEntry(const StateEntry& entry, const char* memory, uint64_t* checksum) {
    StreamHash hash;
    const auto size = static_cast<int64_t>(SizeOf(entry.dtype));
    const int64_t rows = PackedRows(entry);
    for (int64_t row = 0; row < rows;) {
      const auto bytes_to = [&](int64_t last) { return (PackedBefore(entry, last) - PackedBefore(entry, row)) * size; };
      SHAMPOO_RETURN_IF_ERROR(MakeRoom(static_cast<size_t>(bytes_to(row + 1))));
      const int64_t last = LastRowWithin(entry, row, static_cast<int64_t>(room()) / size);
      PackRows(entry, memory, row, last, end());
      const auto bytes = static_cast<size_t>(bytes_to(last));
      hash.Add(end(), bytes);
      used_ += bytes;
      row = last;
    }
    *checksum = hash.value();
    return {};
  }

  Status Flush() {
    SHAMPOO_RETURN_IF_ERROR(file_->WriteAt(at_, buffer_->data(), used_));
    file_->StartWriting(at_, static_cast<int64_t>(used_));
    at_ += static_cast<int64_t>(used_);
    progress_->Add(static_cast<int64_t>(used_));
    used_ = 0;
    return {};
  }

  int64_t bytes() const { return at_ + static_cast<int64_t>(used_); }

 private:
  char* end() { return buffer_->data() + used_; }
  size_t room() const { return buffer_->size() - used_; }
  Status MakeRoom(size_t bytes) { return room() >= bytes ? Status() : Flush(); }

  File* file_;
  std::vector<char>* buffer_;
  Progress* progress_;
  size_t used_ = 0;
  int64_t at_ = 0;
};

}  // namespace

int64_t BlockToSave::bytes() const {
  int64_t sum = 0;
  for (const StateEntry* entry : entries) sum += PackedBytes(*entry);
  return sum;
}

TensorSpec SpecOf(const std::string& name, const StateEntry& entry) {
  TensorSpec spec{name, entry.dtype, {}, 0, PackedBytes(entry)};
  if (entry.symmetric()) {
    spec.shape = {PackedBefore(entry, PackedRows(entry))};
  } else {
    spec.shape.assign(entry.shape.View().begin(), entry.shape.View().end());
  }
  return spec;
}

StatesWriter::StatesWriter(std::string directory, int64_t number, int rank, int world, const Limits& limits)
    : directory_(std::move(directory)), number_(number), rank_(rank), world_(world), limits_(limits) {}

Status StatesWriter::Write(std::vector<BlockToSave>* blocks, Progress* progress) {
  buffer_.resize(kBufferBytes);
  for (size_t first = 0; first < blocks->size();) {
    int64_t bytes = 0;
    size_t entries = 0;
    size_t name_bytes = 0;
    size_t last = first;
    for (; last < blocks->size(); ++last) {
      const BlockToSave& block = (*blocks)[last];
      bytes += block.bytes();
      entries += block.entries.size();
      name_bytes += block.entries.size() * block.stored.key.size();
      const bool fits = bytes <= limits_.bytes && entries <= limits_.entries && name_bytes <= limits_.name_bytes;
      if (last > first && !fits) break;
    }
    SHAMPOO_RETURN_IF_ERROR(WriteFile(std::span(*blocks).subspan(first, last - first), progress));
    first = last;
  }
  return blocks->empty() ? Status() : SyncDirectory(directory_);
}

Status StatesWriter::WriteFile(std::span<BlockToSave> blocks, Progress* progress) {
  const std::string name = StatesName(number_, rank_, world_, static_cast<int>(begun_.size()) + 1);
  const std::string path = PathIn(directory_, name);
  std::vector<TensorSpec> specs;
  int64_t end = 0;
  for (const BlockToSave& block : blocks) {
    for (const StateEntry* entry : block.entries) {
      specs.push_back(SpecOf(TensorName(block.stored, entry->state()), *entry));
      specs.back().begin = end;
      end += specs.back().end;
      specs.back().end = end;
    }
  }
  const std::string start = SafetensorsStart(specs, Cat("shampoo ", kCheckpointFormat));
  File file;
  begun_.push_back({path, path + kTemporary});
  SHAMPOO_RETURN_IF_ERROR(File::Create(begun_.back().temporary, &file));
  Appender appender(&file, &buffer_, progress);
  std::vector<char> copy;  // host copy of a state that is in device memory
  SHAMPOO_RETURN_IF_ERROR(appender.Append(start.data(), start.size()));
  for (BlockToSave& block : blocks) {
    block.stored.file = static_cast<int>(files_.size());
    for (const StateEntry* entry : block.entries) {
      StoredEntry stored{std::string(entry->state()), entry->dtype, 0};
      const char* memory = nullptr;
      SHAMPOO_RETURN_IF_ERROR(block.optimizer->View(*entry, &copy, &memory));
      SHAMPOO_RETURN_IF_ERROR(appender.AppendEntry(*entry, memory, &stored.checksum));
      block.stored.entries.push_back(std::move(stored));
    }
  }
  SHAMPOO_RETURN_IF_ERROR(appender.Flush());
  SHAMPOO_RETURN_IF_ERROR(file.Sync());
  SHAMPOO_RETURN_IF_ERROR(file.Close());
  SHAMPOO_RETURN_IF_ERROR(Rename(begun_.back().temporary, path));
  files_.push_back({name, appender.bytes(), HashBytes(start.data(), start.size(), 0)});
  return {};
}

void StatesWriter::Undo() const {
  for (const Begun& file : begun_) {
    (void)Remove(file.temporary).ok();
    (void)Remove(file.path).ok();
  }
}

}  // namespace shampoo

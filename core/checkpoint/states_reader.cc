// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/states_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/hash.h"
#include "core/plan/block.h"

namespace shampoo {
namespace {

// The largest number of bytes that one call of ReadPiece() reads. A piece is small enough to be still in the cache when
// it is hashed and unpacked, and large enough for a row of any factor matrix.
constexpr size_t kPieceBytes = size_t{1} << 20;
static_assert(static_cast<size_t>(kLargestBlockDim) * sizeof(double) <= kPieceBytes);
// The number of bytes that the operating system is asked to read ahead.
constexpr int64_t kAheadBytes = int64_t{8} << 20;
// Limits of the files that stay open: the number of files, and the total number of their tensors, whose names take
// memory. Before a file is opened, other files are closed until the open files have at most kMaxTensors / 2 tensors,
// because the new file may have kMaxTensors / 2 tensors, too (StatesWriter::Limits::entries).
constexpr size_t kMaxOpen = 64;
constexpr size_t kMaxTensors = 1 << 15;

}  // namespace

StatesReader::StatesReader(const CheckpointIndex& index) : index_(index), buffer_(kPieceBytes) {}

Status StatesReader::Fail(const StoredBlock& block, const StoredEntry& entry, const std::string& why) const {
  return IoFailed(index_.PathOf(index_.files[static_cast<size_t>(block.file)]), ": entry \"",
                  TensorName(block, entry.state), "\": ", why, kLoadAnother);
}

Status StatesReader::OpenStates(int number, OpenFile** out) {
  for (auto open = open_.begin(); open != open_.end(); ++open) {
    if (open->number != number) continue;
    open_.splice(open_.begin(), open_, open);
    *out = &open_.front();
    return {};
  }
  size_t tensors = 0;
  for (const OpenFile& open : open_) tensors += open.tensors.size();
  for (; open_.size() >= kMaxOpen || tensors > kMaxTensors / 2; open_.pop_back()) {
    tensors -= open_.back().tensors.size();
  }
  const StoredFile& stored = index_.files[static_cast<size_t>(number)];
  OpenFile made{number, {}, 0, {}, 0};
  SHAMPOO_RETURN_IF_ERROR(File::Open(index_.PathOf(stored), &made.file));
  SHAMPOO_RETURN_IF_ERROR(ReadStart(stored, &made).Within(made.file.path()));
  open_.push_front(std::move(made));
  *out = &open_.front();
  return {};
}

Status StatesReader::ReadStart(const StoredFile& stored, OpenFile* open) {
  int64_t bytes = 0;
  SHAMPOO_RETURN_IF_ERROR(open->file.Size(&bytes));
  if (bytes != stored.bytes) {
    return IoFailed("it has ", bytes, " bytes, but the index says ", stored.bytes, ": it was changed or truncated",
                    kLoadAnother);
  }
  if (bytes < kSafetensorsLengthBytes) {
    return IoFailed("it has ", bytes, " bytes; expected at least ", kSafetensorsLengthBytes,
                    ", because a safetensors file begins with the length of its header", kLoadAnother);
  }
  std::string start(kSafetensorsLengthBytes, '\0');
  SHAMPOO_RETURN_IF_ERROR(open->file.ReadAt(0, start.data(), start.size()));
  int64_t header_bytes = 0;
  SHAMPOO_RETURN_IF_ERROR(ReadSafetensorsLength(start.data(), bytes, &header_bytes));
  open->start_bytes = kSafetensorsLengthBytes + header_bytes;
  start.resize(static_cast<size_t>(open->start_bytes));
  SHAMPOO_RETURN_IF_ERROR(open->file.ReadAt(0, start.data(), start.size()));
  if (HashBytes(start.data(), start.size(), 0) != stored.start_checksum) {
    return IoFailed("the checksum of its header differs from the one in the index: the file was changed", kLoadAnother);
  }
  std::vector<TensorSpec> tensors;
  const std::string_view header = std::string_view(start).substr(kSafetensorsLengthBytes);
  SHAMPOO_RETURN_IF_ERROR(ParseSafetensorsHeader(header, bytes - open->start_bytes, &tensors));
  for (TensorSpec& tensor : tensors) open->tensors.emplace(tensor.name, std::move(tensor));
  return {};
}

Status StatesReader::Find(const StoredBlock& block, const StoredEntry& entry, Found* found) {
  OpenFile* open = nullptr;
  SHAMPOO_RETURN_IF_ERROR(OpenStates(block.file, &open));
  const auto tensor = open->tensors.find(TensorName(block, entry.state));
  if (tensor == open->tensors.end()) return Fail(block, entry, "the file has no such tensor");
  if (tensor->second.dtype != entry.dtype) return Fail(block, entry, "its dtype differs from that in the index");
  *found = {open, open->start_bytes + tensor->second.begin, tensor->second.end - tensor->second.begin};
  return {};
}

Status StatesReader::ReadPiece(OpenFile* open, int64_t at, size_t bytes) {
  const int64_t end = at + static_cast<int64_t>(bytes);
  if (open->read_ahead_end > end + 2 * kAheadBytes)
    open->read_ahead_end = at;  // the file is read again from an earlier position
  if (open->read_ahead_end < end + kAheadBytes / 2) {
    const int64_t from = std::max(open->read_ahead_end, at);
    open->file.StartReading(from, end + kAheadBytes - from);
    open->read_ahead_end = end + kAheadBytes;
  }
  return open->file.ReadAt(at, buffer_.data(), bytes);
}

Status StatesReader::ForEachPiece(const StoredBlock& block, const StoredEntry& entry, const Visit& visit) {
  Found found{};
  SHAMPOO_RETURN_IF_ERROR(Find(block, entry, &found));
  StreamHash hash;
  for (int64_t done = 0; done < found.bytes;) {
    const auto part = std::min(found.bytes - done, static_cast<int64_t>(buffer_.size()));
    SHAMPOO_RETURN_IF_ERROR(ReadPiece(found.file, found.at + done, static_cast<size_t>(part)));
    hash.Add(buffer_.data(), static_cast<size_t>(part));
    SHAMPOO_RETURN_IF_ERROR(visit(buffer_.data(), static_cast<size_t>(part)));
    done += part;
  }
  if (hash.value() == entry.checksum) return {};
  return Fail(block, entry, "its checksum does not match: the file was changed");
}

Status StatesReader::CheckFile(int file) {
  OpenFile* open = nullptr;
  return OpenStates(file, &open);
}

Status StatesReader::Check(const StoredBlock& block, const StoredEntry& entry, int64_t bytes) {
  Found found{};
  SHAMPOO_RETURN_IF_ERROR(Find(block, entry, &found));
  if (found.bytes != bytes) return Fail(block, entry, "its size does not match its block");
  return ForEachPiece(block, entry, [](const char*, size_t) { return Status(); });
}

Status StatesReader::Load(const StoredBlock& block, const StoredEntry& entry, const StateEntry& state, char* memory) {
  Found found{};
  SHAMPOO_RETURN_IF_ERROR(Find(block, entry, &found));
  const int64_t rows = PackedRows(state);
  const auto size = static_cast<int64_t>(SizeOf(state.dtype));
  if (found.bytes != PackedBefore(state, rows) * size) return Fail(block, entry, "its size does not match its block");
  StreamHash hash;
  for (int64_t row = 0; row < rows;) {
    const int64_t last = LastRowWithin(state, row, static_cast<int64_t>(buffer_.size()) / size);
    const int64_t begin = PackedBefore(state, row) * size;
    const auto bytes = static_cast<size_t>(PackedBefore(state, last) * size - begin);
    SHAMPOO_RETURN_IF_ERROR(ReadPiece(found.file, found.at + begin, bytes));
    hash.Add(buffer_.data(), bytes);
    UnpackRows(state, buffer_.data(), row, last, memory);
    row = last;
  }
  if (hash.value() == entry.checksum) return {};
  return Fail(block, entry, "its checksum does not match: the file was changed");
}

Status StatesReader::ReadRange(const StoredBlock& block, const StoredEntry& entry, int64_t first, int64_t count,
                               void* to) {
  Found found{};
  SHAMPOO_RETURN_IF_ERROR(Find(block, entry, &found));
  const auto size = static_cast<int64_t>(SizeOf(entry.dtype));
  if (first > found.bytes / size - count) return Fail(block, entry, "its size does not match its block");
  return found.file->file.ReadAt(found.at + first * size, to, static_cast<size_t>(count * size));
}

Status StatesReader::ReadWindow(std::span<const StoredBlock* const> blocks, std::string_view state, int64_t first,
                                int64_t count, char* to) {
  for (const StoredBlock* block : blocks) {
    const DenseRange range = Within(block->place, first, count);
    if (range.begin == range.end) continue;
    const StoredEntry& entry = *block->Find(state);
    const auto bytes = [size = SizeOf(entry.dtype)](int64_t n) { return static_cast<size_t>(n) * size; };
    range_.resize(std::max(range_.size(), bytes(range.end - range.begin)));
    SHAMPOO_RETURN_IF_ERROR(ReadRange(*block, entry, range.begin, range.end - range.begin, range_.data()));
    ForEachRunOf(block->place, range, [&](int64_t dense, int64_t at, int64_t n) {
      std::memcpy(to + bytes(at - first), range_.data() + bytes(dense - range.begin), bytes(n));
    });
  }
  return {};
}

}  // namespace shampoo

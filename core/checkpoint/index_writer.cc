// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/index_writer.h"

#include <utility>

#include "core/checkpoint/index.h"
#include "core/checkpoint/json.h"

namespace shampoo {

Status IndexWriter::Create(const std::string& path, const std::string& library, int64_t world) {
  SHAMPOO_RETURN_IF_ERROR(File::Create(path, &file_));
  at_ = static_cast<int64_t>(IndexStart(0).size());
  Append(Cat("{\"format_version\":", kCheckpointFormat, ",\n\"library_version\":", Quoted(library),
             ",\n\"world\":", world));
  return {};
}

void IndexWriter::Begin(const char* array) {
  Append(Cat(in_array_ ? "\n]" : "", ",\n", Quoted(array), ":["));
  in_array_ = true;
  has_member_ = false;
}

void IndexWriter::Add(const std::string& member) {
  Append(has_member_ ? ",\n" : "\n");
  Append(member);
  has_member_ = true;
}

Status IndexWriter::Finish() {
  Append(Cat(in_array_ ? "\n]" : "", "}", kIndexEnd));
  Flush();
  SHAMPOO_RETURN_IF_ERROR(std::move(status_));
  const std::string start = IndexStart(hash_.value());
  SHAMPOO_RETURN_IF_ERROR(file_.WriteAt(0, start.data(), start.size()));
  SHAMPOO_RETURN_IF_ERROR(file_.Sync());
  return file_.Close();
}

void IndexWriter::Append(const std::string& text) {
  constexpr size_t kBuffered = 1 << 20;
  buffer_ += text;
  if (buffer_.size() >= kBuffered) Flush();
}

void IndexWriter::Flush() {
  hash_.Add(buffer_.data(), buffer_.size());
  if (status_.ok()) status_ = file_.WriteAt(at_, buffer_.data(), buffer_.size());
  at_ += static_cast<int64_t>(buffer_.size());
  buffer_.clear();
}

}  // namespace shampoo

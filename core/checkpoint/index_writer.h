// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/base/hash.h"
#include "core/base/status.h"
#include "core/checkpoint/file.h"

namespace shampoo {

// Writes an index, array by array, in the order of CheckpointIndex. After Create(), only Finish() reports a failed
// write, so that the ranks can send all members before they learn of the failure.
class IndexWriter {
 public:
  // library: version of the library. world: number of ranks that save.
  Status Create(const std::string& path, const std::string& library, int64_t world);
  void Begin(const char* array);
  void Add(const std::string& member);
  Status Finish();

 private:
  void Append(const std::string& text);
  void Flush();

  File file_;
  Status status_;
  StreamHash hash_;
  std::string buffer_;
  int64_t at_ = 0;
  bool in_array_ = false;
  bool has_member_ = false;
};

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/base/hash.h"
#include "core/base/status.h"
#include "core/checkpoint/file.h"

namespace shampoo {

// Writes the index of a checkpoint, one array after another, in the order of the arrays in CheckpointIndex. After
// Create(), only Finish() reports a failed write. A failure therefore does not interrupt the exchange in which all
// ranks send members of the arrays to rank 0.
class IndexWriter {
 public:
  // library: version of the library. world: number of ranks that save.
  Status Create(const std::string& path, const std::string& library, int64_t world);
  void Begin(const char* array);        // ends the previous array, if there is one
  void Add(const std::string& member);  // member: JSON, from ToJson()
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

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"

namespace shampoo {

// The last part of error messages about damaged files of a checkpoint.
inline constexpr char kLoadAnother[] = "; load another checkpoint";

// An open file. Errors have the code SHAMPOO_E_IO, and name the path and the reason.
class File {
 public:
  File() = default;
  File(File&& other) noexcept { *this = std::move(other); }
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(path_, other.path_);
    return *this;
  }
  ~File();

  // Opens a regular file for reading. If the path leads to something else, such as a FIFO, the call fails at once.
  static Status Open(const std::string& path, File* out);
  // Creates a file for writing, or truncates an existing one.
  static Status Create(const std::string& path, File* out);

  Status Size(int64_t* bytes) const;
  Status ReadAt(int64_t at, void* data, size_t bytes) const;  // fails if the file ends before at + bytes
  // Asks the system to start reading these bytes in the background.
  void StartReading(int64_t at, int64_t bytes) const;
  Status WriteAt(int64_t at, const void* data, size_t bytes);
  // Asks the system to start writing these bytes to the disk in the background.
  void StartWriting(int64_t at, int64_t bytes);
  Status Sync();
  Status Close();

  const std::string& path() const { return path_; }

 private:
  int fd_ = -1;
  std::string path_;
};

// Returns "<directory>/<name>".
std::string PathIn(const std::string& directory, const std::string& name);

enum class PathKind { kNothing, kFile, kDirectory };
Status KindOf(const std::string& path, PathKind* kind);
// Creates a directory, but not its parents. An existing directory is no error.
Status MakeDirectory(const std::string& path);
Status ListDirectory(const std::string& path, std::vector<std::string>* names);
Status Rename(const std::string& from, const std::string& to);
Status Remove(const std::string& path);  // a missing file is no error
// Makes earlier renames and removals in the directory durable.
Status SyncDirectory(const std::string& path);

}  // namespace shampoo

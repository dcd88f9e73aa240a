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

// An open file. Failures are SHAMPOO_E_IO and tell the path, what was tried and why it failed.
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

  static Status Open(const std::string& path, File* out);    // to read; fails at once on what is not a regular file
  static Status Create(const std::string& path, File* out);  // to write; what was there is gone

  Status Size(int64_t* bytes) const;
  Status ReadAt(int64_t at, void* data, size_t bytes) const;  // all of them, or it fails
  // Lets the system begin to read these bytes, so that ReadAt has less to wait for.
  void StartReading(int64_t at, int64_t bytes) const;
  Status WriteAt(int64_t at, const void* data, size_t bytes);
  // Lets the system begin to write these bytes to the disk, so that Sync has less to wait for.
  void StartWriting(int64_t at, int64_t bytes);
  Status Sync();
  Status Close();

  const std::string& path() const { return path_; }

 private:
  int fd_ = -1;
  std::string path_;
};

// "<directory>/<name>".
std::string PathIn(const std::string& directory, const std::string& name);

enum class PathKind { kNothing, kFile, kDirectory };
Status KindOf(const std::string& path, PathKind* kind);
// Only its last part. One that is there is fine.
Status MakeDirectory(const std::string& path);
Status ListDirectory(const std::string& path, std::vector<std::string>* names);
Status Rename(const std::string& from, const std::string& to);
Status Remove(const std::string& path);  // nothing there is fine
// Makes renamed and removed files stay so through a crash of the machine.
Status SyncDirectory(const std::string& path);

}  // namespace shampoo

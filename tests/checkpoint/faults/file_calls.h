// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace shampoo_test {

// A file operation of a thread. file_calls.cc replaces the file functions of the C library. The replacements of opendir
// and readdir call the C library, and all others call the kernel.
struct FileCall {
  int64_t number = 0;     // counted from 1 by the watch
  std::string name = {};  // name of the function, such as "pwrite"
  std::string path = {};  // for a descriptor: the current path of its file
  std::string to = {};    // for rename: the new name
  bool creates = false;
  const char* data = nullptr;  // for pwrite
  size_t bytes = 0;            // for pread and pwrite
  int64_t at = 0;
};

// The outcome of a call.
struct FileFault {
  int error = 0;                // the call fails with this errno; 0: the call is made
  size_t max_bytes = SIZE_MAX;  // at most this many bytes are read or written
  bool returns_zero = false;    // the call succeeds, but transfers no bytes
};

// Passes each file call of the thread that created this object to the handler before the call is made. File calls that
// the handler itself makes are not passed to it.
class FileWatch {
 public:
  using Handler = std::function<FileFault(const FileCall& call)>;
  explicit FileWatch(Handler handler);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  FileFault Next(FileCall call);

 private:
  Handler handler_;
  int64_t calls_ = 0;
  FileWatch* outer_;
};

}  // namespace shampoo_test

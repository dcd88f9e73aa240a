// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace shampoo_test {

// One thing that a thread asks of the system's files. The functions of the C library that the library calls for it
// are defined in file_calls.cc, which goes before the C library's own, and forward to the kernel.
struct FileCall {
  int64_t number = 0;     // from 1, of the watch
  std::string name = {};  // of the function: "pwrite"
  std::string path = {};  // of a descriptor: of its file as it is called now
  std::string to = {};    // of rename: the new name
  bool creates = false;
  const char* data = nullptr;  // of pwrite
  size_t bytes = 0;            // of pread and pwrite
  int64_t at = 0;
};

// What becomes of a call.
struct FileFault {
  int error = 0;                 // errno, and the call fails; 0: it is made
  size_t most_bytes = SIZE_MAX;  // no more than so many are read or written
  bool returns_zero = false;     // neither failure nor bytes
};

// While it lives, calls of the thread that made it are told before they are made. What `tell` does with files itself is
// not told.
class FileWatch {
 public:
  using Tell = std::function<FileFault(const FileCall& call)>;
  explicit FileWatch(Tell tell);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  FileFault Next(FileCall call);

 private:
  Tell tell_;
  int64_t calls_ = 0;
  FileWatch* outer_;
};

}  // namespace shampoo_test

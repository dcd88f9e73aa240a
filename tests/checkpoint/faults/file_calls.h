// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace shampoo_test {

// A call of a file function. file_calls.cc replaces the file functions of the C library. The replacements of opendir
// and readdir call the C library. All other replacements make system calls.
struct FileCall {
  int64_t number = 0;          // number of the call, counted from 1 by the FileWatch
  std::string name = {};       // name of the function, such as "pwrite"
  std::string path = {};       // path of the file; if the function takes a descriptor, the current path
  std::string to = {};         // for `rename`: the new path
  bool creates = false;        // whether the call is `open` with O_CREAT
  const char* data = nullptr;  // for pwrite: the bytes to write
  size_t bytes = 0;            // for pread and pwrite: the number of bytes
  int64_t at = 0;              // for pread and pwrite: the offset in the file
};

// What happens to a call. By default, the call is made without a fault.
struct FileFault {
  int error = 0;                // if not 0, the call is not made and fails with this errno
  size_t max_bytes = SIZE_MAX;  // at most this many bytes are read or written
  bool returns_zero = false;    // the call is not made and returns 0
};

// Before the thread that created this object makes a file call, the object passes the call to the handler. File calls
// that the handler makes are not passed to the handler.
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

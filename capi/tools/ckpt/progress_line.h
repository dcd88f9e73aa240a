// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace shampoo::ckpt {

// Reports the progress of a long command on stderr, if stderr is a terminal or if `always` is true.
class ProgressLine {
 public:
  // what: the name of the command, such as "verify".
  ProgressLine(const char* what, bool always);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Adds to the number of bytes that the command will read.
  void Expect(int64_t bytes) { bytes_ += bytes; }
  // Adds to the number of bytes that have been read.
  void Add(int64_t bytes);
  // On a terminal, erases the line, so that other output can be printed.
  void Clear();
  // On a terminal, erases the line. Otherwise reports all expected bytes as done, even if some of them were not read.
  void Finish();

 private:
  void Print();

  const char* what_;
  bool shown_, terminal_;
  bool drawn_ = false;
  int64_t bytes_ = 0, done_ = 0;
  std::chrono::steady_clock::time_point printed_at_;
};

}  // namespace shampoo::ckpt

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace shampoo::ckpt {

// Reports the progress of a long command on stderr, if stderr is a terminal or if `always` is true. On a terminal, each
// report overwrites the previous one. Otherwise, each report is a new line.
class ProgressLine {
 public:
  // what: the name of the command, such as "verify".
  ProgressLine(const char* what, bool always);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Adds to the number of bytes that the command will read.
  void Expect(int64_t bytes) { bytes_ += bytes; }
  // Adds to the number of bytes that have been read, and reports this number from time to time.
  void Add(int64_t bytes);
  // On a terminal, erases the line, so that other output can be printed.
  void Clear();
  // On a terminal, erases the line. Otherwise, if `always` is true, reports that all expected bytes are done, even if
  // some of them were not read.
  void Finish();

 private:
  void Print();

  const char* what_;
  bool shown_, terminal_;         // whether to report progress; whether stderr is a terminal
  bool drawn_ = false;            // the terminal shows a report now
  int64_t bytes_ = 0, done_ = 0;  // expected bytes; bytes that have been read
  std::chrono::steady_clock::time_point printed_at_;
};

}  // namespace shampoo::ckpt

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace shampoo::ckpt {

// One line on stderr that tells how far long work is. Only on a terminal, unless it is asked for.
class ProgressLine {
 public:
  // what: "verify"
  ProgressLine(const char* what, bool always);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Expect(int64_t bytes) { bytes_ += bytes; }
  void Add(int64_t bytes);
  // Makes room for another line.
  void Clear();
  // All is done, with what there was no need to read.
  void Finish();

 private:
  void Tell();

  const char* what_;
  bool shown_, terminal_;
  bool drawn_ = false;
  int64_t bytes_ = 0, done_ = 0;
  std::chrono::steady_clock::time_point told_;
};

}  // namespace shampoo::ckpt

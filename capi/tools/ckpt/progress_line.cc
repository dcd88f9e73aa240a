// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/tools/ckpt/progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "capi/tools/ckpt/table.h"
#include "core/base/amount.h"
#include "core/base/text.h"

namespace shampoo::ckpt {

ProgressLine::ProgressLine(const char* what, bool always)
    : what_(what), shown_(always || isatty(STDERR_FILENO) == 1), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() { Clear(); }

void ProgressLine::Finish() {
  done_ = bytes_;
  if (shown_ && !terminal_) Print();
  Clear();
}

void ProgressLine::Add(int64_t bytes) {
  done_ += bytes;
  if (!shown_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - printed_at_ < std::chrono::milliseconds(terminal_ ? 200 : 2000)) return;
  printed_at_ = now;
  Print();
}

void ProgressLine::Print() {
  const int64_t percent = bytes_ > 0 ? std::min(int64_t{100}, 100 * done_ / bytes_) : 100;
  // On a terminal, overwrites the previous report.
  std::fputs(Cat(terminal_ ? "\r\033[K" : "", what_, ": ", BytesText(done_), " of ", BytesText(bytes_), ", ", percent,
                 " %", terminal_ ? "" : "\n")
                 .c_str(),
             stderr);
  drawn_ = terminal_;
}

void ProgressLine::Clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

}  // namespace shampoo::ckpt

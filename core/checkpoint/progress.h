// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include "core/base/amount.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace shampoo {

// Logs the progress of a save or a load every two seconds.
class Progress {
 public:
  // what: the start of the messages, such as "saving".
  Progress(const char* what, int64_t bytes) : what_(what), bytes_(bytes) {}
  void Add(int64_t bytes) {
    done_ += bytes;
    const auto now = std::chrono::steady_clock::now();
    if (now - last_logged_ < std::chrono::seconds(2)) return;
    last_logged_ = now;
    LogText(LogLevel::kInfo, [&] {
      return Cat(what_, ": ", BytesText(done_), " of ", BytesText(bytes_), ", ",
                 bytes_ > 0 ? 100 * done_ / bytes_ : 100, " %");
    });
  }

 private:
  const char* what_;
  int64_t bytes_;
  int64_t done_ = 0;
  std::chrono::steady_clock::time_point last_logged_ = std::chrono::steady_clock::now();
};

}  // namespace shampoo

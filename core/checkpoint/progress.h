// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include "core/base/amount.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace shampoo {

// Logs the progress of a save or a load, at most once every two seconds.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  // what: the start of the messages, such as "saving". bytes: the number of bytes to save or load. now: only tests pass
  // this argument.
  Progress(const char* what, int64_t bytes, Clock::time_point now = Clock::now())
      : what_(what), bytes_(bytes), last_logged_(now) {}
  // Call after `bytes` more bytes have been saved or loaded.
  void Add(int64_t bytes, Clock::time_point now = Clock::now()) {
    done_ += bytes;
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
  Clock::time_point last_logged_;
};

}  // namespace shampoo

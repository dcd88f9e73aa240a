// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "core/base/log.h"

namespace shampoo {

// Collects the log messages of the process while this object exists.
class LogCapture {
 public:
  explicit LogCapture(LogLevel max_level = LogLevel::kWarning) { SetLog(&Append, this, max_level); }
  ~LogCapture() { SetLog(nullptr, nullptr, LogLevel::kError); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  const std::vector<std::string>& messages() const { return messages_; }

 private:
  static void Append(void* self, int /*level*/, const char* message) {
    auto* const capture = static_cast<LogCapture*>(self);
    const std::lock_guard<std::mutex> lock(capture->mutex_);  // several threads of a test may log
    capture->messages_.emplace_back(message);
  }

  std::mutex mutex_;
  std::vector<std::string> messages_;
};

}  // namespace shampoo

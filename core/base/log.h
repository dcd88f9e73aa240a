// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shampoo {

enum class LogLevel : int { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };
using LogCallback = void (*)(void* user, int level, const char* message);

// Sets the log callback of the process. nullptr disables logging. The callback runs on the thread that called the
// library. Messages with a level above max_level are dropped.
void SetLog(LogCallback callback, void* user, LogLevel max_level);
// Returns whether a message of this level would be delivered. Call this function before you build an expensive message.
bool LogEnabled(LogLevel level);
void Log(LogLevel level, const std::string& message);

// Logs the message that make() returns, unless it is empty. make() is called only if the level is enabled. Never
// throws: if make() throws, for example because memory is exhausted, nothing is logged.
template <typename Make>
void LogText(LogLevel level, Make&& make) noexcept {
  try {
    if (!LogEnabled(level)) return;
    const std::string text = make();
    if (!text.empty()) Log(level, text);
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
}

}  // namespace shampoo

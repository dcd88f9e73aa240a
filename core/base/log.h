// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shampoo {

enum class LogLevel : int { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };
using LogCallback = void (*)(void* user, int level, const char* message);

// One callback for the process; nullptr: silence. It runs on the thread that is inside a call of the library.
void SetLog(LogCallback callback, void* user, LogLevel max_level);
// Whether a message of this level would be delivered: check before building an expensive text.
bool LogEnabled(LogLevel level);
void Log(LogLevel level, const std::string& message);

// make() gives the text, and is called only if somebody listens. For places that have nothing left to fail: a text for
// which there is no memory is left out.
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

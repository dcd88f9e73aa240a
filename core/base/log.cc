// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <mutex>

namespace shampoo {
namespace {
struct Sink {
  LogCallback callback = nullptr;
  void* user = nullptr;
  LogLevel max_level = LogLevel::kWarning;
};
std::mutex sink_mutex;
Sink sink;

Sink CurrentSink() {
  std::lock_guard<std::mutex> lock(sink_mutex);
  return sink;
}
}  // namespace

void SetLog(LogCallback callback, void* user, LogLevel max_level) {
  std::lock_guard<std::mutex> lock(sink_mutex);
  sink = {callback, user, max_level};
}

bool LogEnabled(LogLevel level) {
  const Sink now = CurrentSink();
  return now.callback != nullptr && level <= now.max_level;
}

void Log(LogLevel level, const std::string& message) {
  // The mutex is not locked during the callback, because the callback may call shampoo_set_log().
  const Sink now = CurrentSink();
  if (now.callback != nullptr && level <= now.max_level)
    now.callback(now.user, static_cast<int>(level), message.c_str());
}

}  // namespace shampoo

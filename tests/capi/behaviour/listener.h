// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <shampoo/shampoo.h>

#include <initializer_list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace shampoo_test {

// Collects the messages that the library logs while this object exists.
class Listener {
 public:
  explicit Listener(int32_t max_level) { REQUIRE(shampoo_set_log(&Receive, this, max_level) == SHAMPOO_OK); }
  ~Listener() { shampoo_set_log(nullptr, nullptr, 0); }

  // Checks that exactly one message has been logged since the last Take(), and that this message has these words.
  void CheckOneMessage(std::initializer_list<const char*> words) {
    const std::vector<std::string> messages = Take();
    REQUIRE(messages.size() == 1);
    for (const char* const word : words) CHECK_MESSAGE(messages[0].find(word) != std::string::npos, messages[0]);
  }

  // Removes the collected messages and returns them. Each begins with its level and a space, such as "1 ".
  std::vector<std::string> Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(messages_, {});
  }

 private:
  static void Receive(void* user, int32_t level, const char* message) {
    auto* const self = static_cast<Listener*>(user);
    const std::lock_guard<std::mutex> lock(self->mutex_);
    self->messages_.push_back(std::to_string(level) + " " + message);
  }
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

}  // namespace shampoo_test

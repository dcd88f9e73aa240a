// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace shampoo {

// One text for each thread: that of its last failure. It is freed when the thread ends.
//
// Why not a thread_local: one of class type registers its destructor on first use, and glibc ends the process where
// there is no memory for that. An array is no way out either: libshampoo uses the static TLS model
// (core/blas/scratch.cc), and a process has less than 2 KiB of static TLS for all libraries that it loads with dlopen.
class ThreadText {
 public:
  static constexpr size_t kBytes = 4096;  // with the zero byte

  // Replaces this thread's text and returns it; nullptr if there is no memory to keep it. A text that is too long is
  // cut between two characters and marked. A zero byte becomes a question mark, because readers would stop there.
  static const char* Set(std::string_view text) noexcept;
  // This thread's text; "" if it has none.
  static const char* Get() noexcept;
};

}  // namespace shampoo

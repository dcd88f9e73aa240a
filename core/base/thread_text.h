// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace shampoo {

// The last error message of each thread. When a thread exits, its message is freed.
//
// The message is not in a thread_local object. A thread_local object of class type registers its destructor at its
// first use, and glibc aborts the process if there is no memory for the registration. A thread_local array would be too
// large: the thread-local variables of libshampoo are in static TLS, because of the TLS model in core/blas/scratch.cc.
// A process has less than 2 KiB of static TLS for all libraries that it loads with dlopen.
class ThreadText {
 public:
  static constexpr size_t kBytes = 4096;  // including the terminating zero byte

  // Replaces this thread's message, and returns the stored copy. Returns nullptr if no memory can be allocated.
  // A message that is too long is cut between two characters, and " ... (cut off)" is appended. A zero byte becomes a
  // question mark, because a zero byte ends a C string.
  static const char* Set(std::string_view text) noexcept;
  // Returns this thread's message, or "" if the thread has none.
  static const char* Get() noexcept;
};

}  // namespace shampoo

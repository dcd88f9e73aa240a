// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "core/base/status.h"

namespace shampoo {

// Calls work(), and returns its status. If work() throws std::bad_alloc, returns an out-of-memory error. If work()
// throws another std::exception, returns an internal error with the message of the exception. An exception must not
// leave a step, because it would skip the next exchange, in which other ranks wait for this rank.
template <typename Work>
Status CatchExceptions(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory();
  } catch (const std::exception& failure) {
    return Internal(failure.what());
  }
}

// Returns a copy of a status, or an out-of-memory error if the copy cannot be allocated. Does not throw, so that a rank
// can report an error even if memory is exhausted.
inline Status CopyOf(const Status& status) {
  return CatchExceptions([&] { return status.Copy(); });
}

}  // namespace shampoo

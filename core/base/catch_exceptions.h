// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "core/base/status.h"

namespace shampoo {

// Returns the status of work(). If work() throws, returns the exception as a status. Used where a rank must still join
// an exchange after a failure, because the other ranks wait for it there.
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

// Returns a copy of a status, or an out-of-memory error if the copy cannot be allocated. Used where a rank must still
// report its error.
inline Status CopyOf(const Status& status) {
  return CatchExceptions([&] { return status.Copy(); });
}

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "core/base/status.h"

namespace shampoo {

// Returns the status of work(), or its exception as a status. For a rank that must still join an exchange in which
// other ranks wait for it.
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

// Returns a copy, or the error that there is no memory for one. For a rank that must still report an error.
inline Status CopyOf(const Status& status) {
  return CatchExceptions([&] { return status.Copy(); });
}

}  // namespace shampoo

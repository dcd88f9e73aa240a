// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "core/base/masked_traps.h"
#include "core/base/status.h"

namespace shampoo {

// Stores `message` for shampoo_last_error() on this thread, and returns `code` as a shampoo_status.
shampoo_status ReportFailure(Code code, std::string_view message) noexcept;

// Converts a status to the value that an API function returns. If the status is an error, stores its message for
// shampoo_last_error(). If copy_to is not nullptr, also stores the message in *copy_to.
inline shampoo_status Report(const Status& status, std::string* copy_to = nullptr) {
  if (status.ok()) return SHAMPOO_OK;
  if (copy_to != nullptr) *copy_to = status.message();
  return ReportFailure(status.code(), status.message());
}

// Does for an exception what Report() does for an error: stores its message, and returns `code` as a shampoo_status. If
// there is no memory for the copy in *copy_to, clears *copy_to.
inline shampoo_status ReportException(Code code, const char* message, std::string* copy_to) noexcept {
  try {
    if (copy_to != nullptr) *copy_to = message;
  } catch (...) {
    copy_to->clear();
  }
  return ReportFailure(code, message);
}

// Runs the body of an API function. Converts exceptions to a status, because no exception may leave the library. Masks
// the floating-point traps that the application has enabled. The traps are also masked on worker threads, because
// Executor::ForEachSlot copies the floating-point environment of this thread to the worker threads.
template <typename Body>
shampoo_status Guard(Body&& body, std::string* copy_to = nullptr) noexcept {
  const MaskedTraps traps;
  try {
    return Report(body(), copy_to);
  } catch (const std::bad_alloc&) {
    return ReportException(Code::kNoMemory, "out of host memory", copy_to);
  } catch (const std::exception& failure) {
    return ReportException(Code::kInternal, failure.what(), copy_to);
  } catch (...) {
    return ReportException(Code::kInternal, "an unknown exception: please report it", copy_to);
  }
}

// Fails if an argument of an API function is NULL. name: the name of the argument.
inline Status RequireArgument(const void* argument, const char* name) {
  if (argument != nullptr) return {};
  return Invalid(name, " is NULL: expected a pointer");
}

}  // namespace shampoo

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

// This thread's last failure, and its code as the return value.
shampoo_status ReportFailure(Code code, std::string_view message) noexcept;

// A Status as the return value of the API; copy_to, if given, keeps the text, too.
inline shampoo_status Report(const Status& status, std::string* copy_to = nullptr) {
  if (status.ok()) return SHAMPOO_OK;
  if (copy_to != nullptr) *copy_to = status.message();
  return ReportFailure(status.code(), status.message());
}

// The same where memory may be short: the copy is left out rather than thrown for.
inline shampoo_status ReportException(Code code, const char* message, std::string* copy_to) noexcept {
  try {
    if (copy_to != nullptr) *copy_to = message;
  } catch (...) {
    copy_to->clear();
  }
  return ReportFailure(code, message);
}

// Every function of the API runs its body in here: no exception leaves the library, and no trap of the host is taken in
// it. Threads that help have the floating-point mode of this one (Executor::ForEachSlot).
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

inline Status RequireArgument(const void* argument, const char* name) {
  if (argument != nullptr) return {};
  return Invalid(name, " is NULL: expected a pointer");
}

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/base/status.h"

namespace shampoo {

// Checks that a call failed with this code, and that the message of the error contains `says`.
inline void CheckError(const Status& status, Code code, const std::string& says) {
  CHECK_MESSAGE(status.code() == code, std::string(CodeName(status.code())), ": ", status.message());
  CHECK_MESSAGE(status.message().find(says) != std::string::npos, "expected \"", says, "\" in: ", status.message());
}

inline void CheckOk(const Status& status) { CHECK_MESSAGE(status.ok(), status.message()); }

// If `is_ok` is true, checks that a call succeeded. Otherwise checks that the call failed as CheckError expects.
inline void CheckOkIf(bool is_ok, const Status& status, Code code, const std::string& says) {
  is_ok ? CheckOk(status) : CheckError(status, code, says);
}

// Checks that the calls of all ranks failed as CheckError expects.
inline void CheckAllFail(const std::vector<Status>& statuses, Code code, const std::string& says) {
  for (const Status& status : statuses) CheckError(status, code, says);
}
inline void CheckAllOk(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) CheckOk(status);
}

}  // namespace shampoo

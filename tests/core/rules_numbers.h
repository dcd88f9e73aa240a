// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

namespace shampoo {

// Numbers in the tables of tests/core/rules_cases.h.
inline constexpr double kInfinite = std::numeric_limits<double>::infinity();
inline constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kNoResult = 1e99;  // a number that no case expects

template <typename Enum>
constexpr double NumberOf(Enum value) {
  return static_cast<double>(value);
}

}  // namespace shampoo

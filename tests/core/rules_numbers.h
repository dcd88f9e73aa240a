// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

namespace shampoo {

// Numbers in tables of cases of rules.
inline constexpr double kInfinite = std::numeric_limits<double>::infinity();
inline constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kNoResult = 1e99;  // no case expects it

template <typename Enum>
constexpr double NumberOf(Enum value) {
  return static_cast<double>(value);
}

}  // namespace shampoo

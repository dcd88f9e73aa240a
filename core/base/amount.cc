// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/amount.h"

#include <charconv>
#include <iterator>

#include "core/base/text.h"

namespace shampoo {

std::string CountText(int64_t count, std::string_view noun) { return Cat(count, " ", noun, count == 1 ? "" : "s"); }

std::string IndicesText(int64_t count) { return count == 1 ? "0" : Cat("0 to ", count - 1); }

std::string BytesText(int64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return CountText(bytes, "byte");
  size_t unit = 0;
  auto amount = static_cast<double>(bytes) / 1024;
  for (; amount >= 1024 && unit + 1 < std::size(kUnits); amount /= 1024) ++unit;
  char digits[40];
  char* const end = std::to_chars(digits, digits + sizeof digits, amount, std::chars_format::fixed, 1).ptr;
  return Cat(std::string_view(digits, static_cast<size_t>(end - digits)), " ", kUnits[unit]);
}

}  // namespace shampoo

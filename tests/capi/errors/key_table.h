// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>
#include <string_view>

#include "errors_test_util.h"

namespace shampoo_test {

inline std::vector<shampoo_key_info> KeyTable() {
  std::vector<shampoo_key_info> keys;
  for (int32_t i = 0; i < shampoo_config_key_count(); ++i) {
    shampoo_key_info info = SHAMPOO_KEY_INFO_INIT;
    RequireOk(shampoo_config_describe_key(i, &info));
    keys.push_back(info);
  }
  return keys;
}

// Returns a valid value of a key, spelled as shampoo_config_get returns it. The value differs from the key's default.
// The value of the key `preset` is the one that MakeConfig has set, because setting a different preset would fail.
inline std::string AnotherValue(const shampoo_key_info& key) {
  if (std::string_view(key.name) == "preset") return "shampoo_2024";
  const std::string_view type = key.value_type;
  const std::string_view normal = key.default_value;
  const auto unless_default = [normal](const char* value, const char* other) {
    return normal == value ? other : value;
  };
  if (type == "f64") return "0.25";
  if (type == "i64")
    return std::string_view(key.range) == "[0, 1]" ? unless_default("0", "1") : unless_default("3", "2");
  if (type == "bool") return unless_default("true", "false");
  if (type == "dtype") return "f64";
  if (type == "list") return "0,2,4";
  if (type == "text") return "2,-1.5,0.5";
  // The range lists choices. The result is the last choice, or the first choice if the last one is the default.
  const std::string range = key.range;
  const size_t comma = range.rfind(", ");
  if (comma == std::string::npos) return range;
  const std::string last = range.substr(comma + 2);
  return last == normal ? range.substr(0, range.find(", ")) : last;
}

// Returns numbers outside the range of a key: the numbers nearest to the range and, if the range has no upper limit,
// also a number far below the lower limit. The key table has ranges such as "[0, 1)", "> 0", "[-1, 2^53]" and "finite".
// For "finite" the result is empty, because every finite number is allowed.
inline std::vector<double> OutsideOf(const shampoo_key_info& key) {
  std::string range = key.range;
  if (range.rfind("auto, or ", 0) == 0) range = range.substr(9);
  if (range == "finite") return {};
  const bool integer = std::string_view(key.value_type) == "i64";
  const auto number = [&](size_t at) {
    if (range.compare(at, 4, "2^53") == 0) return 9007199254740992.0;
    double value = 0;
    REQUIRE(std::from_chars(range.data() + at, range.data() + range.size(), value).ec == std::errc());
    return value;
  };
  const auto below = [&](double least) {
    return integer ? least - 1 : std::nextafter(least, -std::numeric_limits<double>::infinity());
  };
  const auto above = [&](double largest) {
    return integer ? largest + (largest < 9007199254740992.0 ? 1 : 2)
                   : std::nextafter(largest, std::numeric_limits<double>::infinity());
  };
  if (range.rfind(">= ", 0) == 0) return {below(number(3)), integer ? -1e18 : -1e300};
  if (range.rfind("> ", 0) == 0) return {number(2), below(number(2)), integer ? -1e18 : -1e300};
  REQUIRE((range[0] == '[' || range[0] == '('));
  const double least = number(1);
  const double largest = number(range.find(", ") + 2);
  std::vector<double> outside = {below(least), above(largest)};
  if (range[0] == '(') outside.push_back(least);
  if (range.back() == ')') outside.push_back(largest);
  return outside;
}

}  // namespace shampoo_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace shampoo_test {

// Keys of a config and their values. A string that is converted to Keys has the syntax of shampoo_config_parse, such as
// "method=soap lr=1".
struct Keys : std::vector<std::pair<std::string, std::string>> {
  using std::vector<std::pair<std::string, std::string>>::vector;
  Keys() = default;
  Keys(const std::vector<std::pair<std::string, std::string>>& keys) : vector(keys) {}
  Keys(const std::string& text) {  // implicit, so that a string can be passed as keys
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      emplace_back(word.substr(0, equals), word.substr(equals + 1));
    }
  }
  Keys(const char* text) : Keys(std::string(text)) {}

  // Returns the last value of a key, or "" if the key is not set.
  std::string Value(const std::string& key) const {
    const auto found = std::find_if(rbegin(), rend(), [&](const auto& one) { return one.first == key; });
    return found == rend() ? "" : found->second;
  }
};

inline Keys operator+(Keys keys, const Keys& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

inline std::ostream& operator<<(std::ostream& out, const Keys& keys) {
  for (const auto& [key, value] : keys) out << (&key == &keys[0].first ? "" : " ") << key << '=' << value;
  return out;
}

// Returns all combinations of one value for each key. The values of a key are separated by '|', such as
// "balance=bytes|cost comm_bucket_bytes=0|600". The values of the last key change fastest.
inline std::vector<Keys> Combinations(const Keys& choices) {
  std::vector<Keys> all(1);
  for (const auto& [key, values] : choices) {
    if (values.empty()) std::abort();  // a loop over no combinations would check nothing
    std::vector<Keys> longer;
    for (const Keys& keys : all) {
      std::istringstream each(values);
      for (std::string value; std::getline(each, value, '|');) longer.push_back(keys + Keys{{key, value}});
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace shampoo_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <sstream>
#include <string>

// Like doctest's CAPTURE, but for several variables: adds their names and values to the message of a failed check.
#define CAPTURE_ALL(...) INFO(#__VA_ARGS__ " := ", ::shampoo_test::Joined(__VA_ARGS__))

namespace shampoo_test {

// Writes a value as text. The elements of a container are in parentheses.
template <typename Value>
void Show(std::ostream& out, const Value& value) {
  if constexpr (requires { out << value; }) {
    out << value;
  } else {
    out << "(";
    for (const auto& element : value) Show(out << " ", element);
    out << " )";
  }
}

template <typename First, typename... More>
std::string Joined(const First& first, const More&... more) {
  std::ostringstream text;
  Show(text << std::boolalpha, first);
  (Show(text << ", ", more), ...);
  return text.str();
}

}  // namespace shampoo_test

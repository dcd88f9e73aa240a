// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace shampoo {

namespace text_internal {
inline void Append(std::string& out, std::string_view piece) { out.append(piece); }
inline void Append(std::string& out, const char* piece) { out.append(piece == nullptr ? "NULL" : piece); }
inline void Append(std::string& out, const std::string& piece) { out.append(piece); }
inline void Append(std::string& out, char piece) { out.push_back(piece); }
inline void Append(std::string& out, bool piece) { out.append(piece ? "true" : "false"); }
// Uses std::to_chars because the output of printf and streams depends on the locale of the application.
template <typename Number>
requires(std::is_arithmetic_v<Number>) void Append(std::string& out, Number piece) {
  char digits[40];
  const char* const end = std::to_chars(digits, digits + sizeof digits, piece).ptr;
  out.append(digits, static_cast<size_t>(end - digits));
}
}  // namespace text_internal

// Concatenates the pieces. A number has the shortest form from which exactly this number can be read.
template <typename... Pieces>
std::string Cat(const Pieces&... pieces) {
  std::string out;
  (text_internal::Append(out, pieces), ...);
  return out;
}

// Returns the text without spaces and tabs at its ends.
inline std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace shampoo

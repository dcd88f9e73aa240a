// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/stored_text.h"

#include <algorithm>

#include "core/base/text.h"

namespace shampoo {
namespace {

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

bool HasZeroByte(const Json& value) {
  const auto has_one = [](const auto& inner) { return HasZeroByte(inner); };
  return HasZeroByte(value.text) || std::any_of(value.names.begin(), value.names.end(), has_one) ||
         std::any_of(value.values.begin(), value.values.end(), has_one);
}

std::string Shown(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string shown;
  for (const char c : text) shown += IsControl(c) ? Cat("\\x", kDigits[c >> 4], kDigits[c & 15]) : std::string(1, c);
  return shown;
}

Status CheckStoredName(const std::string& name) {
  const auto invalid = [&name](const char* why) {
    return IoFailed("the file name \"", Shown(name), "\" ", why,
                    "; expected the name of a file in the directory of the index. Load another checkpoint");
  };
  if (name.empty()) return invalid("is empty");
  if (name == "." || name == "..") return invalid("is the name of a directory");
  if (name.find('/') != std::string::npos) return invalid("contains a slash");
  if (std::any_of(name.begin(), name.end(), IsControl)) return invalid("contains a control character");
  return {};
}

}  // namespace shampoo

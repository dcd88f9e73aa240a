// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/utf8.h"

#include <cstdint>

namespace shampoo {

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<uint8_t>(text[i++]);
    if (first < 0x80) continue;
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || text.size() - i < static_cast<size_t>(more)) return false;
    uint32_t point = first & (0x3fU >> more);
    for (int k = 0; k < more; ++k) {
      const auto next = static_cast<uint8_t>(text[i++]);
      if ((next & 0xc0) != 0x80) return false;
      point = point << 6 | (next & 0x3fU);
    }
    constexpr uint32_t kMin[] = {0, 0x80, 0x800, 0x10000};
    if (point < kMin[more] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return false;
  }
  return true;
}

std::string_view Utf8Prefix(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  const auto continues = [&text](size_t at) { return (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80; };
  for (int k = 0; k < 3 && bytes > 0 && continues(bytes); ++k) --bytes;  // a character has at most 4 bytes
  return text.substr(0, bytes);
}

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace shampoo {

// Returns whether the bytes are UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF.
bool IsUtf8(std::string_view text);

// Returns the start of a UTF-8 string: as many complete characters as fit into `bytes` bytes.
std::string_view Utf8Prefix(std::string_view text, size_t bytes);

}  // namespace shampoo

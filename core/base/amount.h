// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shampoo {

// Returns a count with its noun: "1 block", "2 blocks".
std::string CountText(int64_t count, std::string_view noun);
// Returns the valid indices for `count` elements, as errors list them: "0" if count is 1, "0 to 3" if count is 4.
// Requires that count is at least 1.
std::string IndicesText(int64_t count);
// Returns a number of bytes in a readable unit: "12 bytes", "1.5 GiB".
std::string BytesText(int64_t bytes);

}  // namespace shampoo

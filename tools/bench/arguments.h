// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace bench {

// These functions parse values of the command line. If a value is wrong, the program ends with a message that names the
// option.

// Splits "a,b,c" at the commas. Drops empty parts; at least one part must not be empty.
std::vector<std::string> SplitList(const std::string& text, const std::string& option);

// Splits "1,2,8" into integers from 1 to 2^30. Int is int or int64_t.
template <typename Int>
std::vector<Int> SplitInts(const std::string& text, const std::string& option);

// Splits KEY=VALUE, the argument of --set.
std::pair<std::string, std::string> SplitPair(const std::string& text);

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace bench {

// Values on the command line. A wrong value ends the program with a message that names the option.

// Splits "a,b,c". At least one part must not be empty.
std::vector<std::string> SplitList(const std::string& text, const std::string& option);

// Reads "1,2,8": integers of at least 1. Int: int, int64_t.
template <typename Int>
std::vector<Int> SplitInts(const std::string& text, const std::string& option);

// Splits KEY=VALUE, the argument of --set.
std::pair<std::string, std::string> SplitPair(const std::string& text);

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace bench {

// Parse values of the command line. A wrong value ends the program with a message that names the option.

// Splits "a,b,c" and drops empty parts. At least one part must remain.
std::vector<std::string> SplitList(const std::string& text, const std::string& option);

// Splits "1,2,8" into integers of at least 1. Int is int or int64_t.
template <typename Int>
std::vector<Int> SplitInts(const std::string& text, const std::string& option);

// Splits KEY=VALUE, the argument of --set.
std::pair<std::string, std::string> SplitPair(const std::string& text);

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace bench {

// Values of the command line. What is none ends the program with a message that has the name of the option.

// "a,b,c"; at least one part that is not empty.
std::vector<std::string> SplitList(const std::string& text, const std::string& option);

// "1,2,8": whole numbers of 1 or more. Int: int, int64_t.
template <typename Int>
std::vector<Int> SplitInts(const std::string& text, const std::string& option);

// The two sides of KEY=VALUE, which --set takes.
std::pair<std::string, std::string> SplitPair(const std::string& text);

}  // namespace bench

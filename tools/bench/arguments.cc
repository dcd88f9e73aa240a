// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/arguments.h"

#include <cstdint>
#include <cstdlib>
#include <sstream>

#include "tools/bench/fail.h"

namespace bench {

std::vector<std::string> SplitList(const std::string& text, const std::string& option) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    if (!part.empty()) parts.push_back(part);
  }
  if (parts.empty()) Fail(option + " needs a value");
  return parts;
}

template <typename Int>
std::vector<Int> SplitInts(const std::string& text, const std::string& option) {
  std::vector<Int> values;
  for (const std::string& part : SplitList(text, option)) {
    char* end = nullptr;
    const long long value = std::strtoll(part.c_str(), &end, 10);
    if (*end != '\0' || value < 1 || value > (1 << 30))
      Fail(option + ": '" + part + "' is not an integer from 1 to " + std::to_string(1 << 30));
    values.push_back(static_cast<Int>(value));
  }
  return values;
}

template std::vector<int> SplitInts<int>(const std::string&, const std::string&);
template std::vector<int64_t> SplitInts<int64_t>(const std::string&, const std::string&);

std::pair<std::string, std::string> SplitPair(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) Fail("--set " + text + ": expected KEY=VALUE");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/config/option_text.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/text.h"

namespace shampoo {
namespace {

constexpr std::string_view kBlanks = " \t\r";

// Reads the pairs key=value of one line, from left to right.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(line.substr(0, line.find('#'))) { SkipBlanks(); }

  bool done() const { return rest_.empty(); }

  Status ReadPair(std::string* key, std::string* value) {
    *key = ReadUntil(" \t\r=");
    SkipBlanks();
    if (key->empty()) return Invalid("there is no key before \"=\": expected key=value");
    if (rest_.empty() || rest_.front() != '=') {
      return Invalid("key ", *key, " has no value: expected ", *key, "=value");
    }
    rest_.remove_prefix(1);
    SkipBlanks();
    *value = ReadUntil(kBlanks);
    SkipBlanks();
    if (value->empty()) return Invalid("key ", *key, " has no value after \"=\": expected ", *key, "=value");
    return {};
  }

 private:
  std::string ReadUntil(std::string_view ends) {
    const std::string_view word = rest_.substr(0, rest_.find_first_of(ends));
    rest_.remove_prefix(word.size());
    return std::string(word);
  }
  void SkipBlanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlanks), rest_.size())); }

  std::string_view rest_;
};

Status SetFromLine(std::string_view line, Config* config) {
  std::string key, value;
  for (LineReader reader(line); !reader.done();) {
    SHAMPOO_RETURN_IF_ERROR(reader.ReadPair(&key, &value));
    SHAMPOO_RETURN_IF_ERROR(config->SetText(key.c_str(), value.c_str()));
  }
  return {};
}

}  // namespace

Status SetFromOptionText(const char* text, Config* config) {
  if (text == nullptr) return Invalid("options is NULL: expected a string such as \"lr=0.1 grafting=adam\"");
  Config changed = *config;
  std::string_view rest(text);
  const bool several_lines = rest.find('\n') != std::string_view::npos;
  for (int number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    Status status = SetFromLine(line, &changed);
    if (!status.ok()) return std::move(status).Within(several_lines ? Cat("options, line ", number) : "options");
  }
  *config = std::move(changed);
  return {};
}

}  // namespace shampoo

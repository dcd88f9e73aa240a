// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/json.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

namespace shampoo {
namespace {

// The largest number of nested arrays and objects. It limits the recursion of destructors.
constexpr size_t kMaxNested = 16;

// Receives the events of nlohmann's parser, and builds a Json from them.
class Builder {
 public:
  Builder(const ConsumeObject& consume, Json* out) : consume_(consume), out_(out) {}

  // nlohmann::json requires these names.
  // NOLINTBEGIN(readability-identifier-naming)
  bool null() { return Add({}); }
  bool boolean(bool) { return Add({}); }
  bool number_float(double, const std::string&) { return Add({}); }
  bool number_integer(int64_t number) { return AddInteger(number); }
  bool number_unsigned(uint64_t number) {
    return number <= INT64_MAX ? AddInteger(static_cast<int64_t>(number)) : Add({});
  }
  bool string(std::string& text) {
    Json value;
    value.kind = Json::Kind::kText;
    value.text = std::move(text);
    return Add(std::move(value));
  }
  bool binary(std::vector<uint8_t>&) { return false; }
  bool start_object(size_t) { return Open(Json::Kind::kObject); }
  bool start_array(size_t) { return Open(Json::Kind::kArray); }
  bool key(std::string& name) {
    where_.back() = std::move(name);
    return true;
  }
  bool end_object() {
    Json object = CloseLast();
    return (consume_ && consume_(where_, object)) || Add(std::move(object));
  }
  bool end_array() { return Add(CloseLast()); }
  template <typename Error>
  bool parse_error(size_t, const std::string&, const Error&) {
    return false;
  }
  // NOLINTEND(readability-identifier-naming)

 private:
  bool Open(Json::Kind kind) {
    if (open_.size() == kMaxNested) return false;
    open_.emplace_back().kind = kind;
    where_.emplace_back();
    return true;
  }
  Json CloseLast() {
    Json last = std::move(open_.back());
    open_.pop_back();
    where_.pop_back();
    return last;
  }
  bool AddInteger(int64_t number) {
    Json value;
    value.kind = Json::Kind::kInteger;
    value.integer = number;
    return Add(std::move(value));
  }
  bool Add(Json value) {
    if (open_.empty()) {
      *out_ = std::move(value);
      return true;
    }
    Json& in = open_.back();
    if (in.is_object()) in.names.push_back(where_.back());
    in.values.push_back(std::move(value));
    return true;
  }

  const ConsumeObject& consume_;
  Json* out_;
  std::vector<Json> open_;
  std::vector<std::string> where_;  // for each open object: the name of its current member; for each open array: ""
};

}  // namespace

const Json* Json::Find(std::string_view name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? nullptr : &values[static_cast<size_t>(found - names.begin())];
}

bool ParseJson(IndexText* text, const ConsumeObject& consume, Json* out) {
  Builder builder(consume, out);
  return nlohmann::json::sax_parse(text->begin(), text->end(), &builder);
}

bool ParseJson(std::string_view text, const ConsumeObject& consume, Json* out) {
  IndexText all(text);
  return ParseJson(&all, consume, out);
}

bool Read(const Json& value, std::string* out) {
  if (value.kind != Json::Kind::kText) return false;
  *out = value.text;
  return true;
}

bool Read(const Json& value, int64_t* out) {
  if (value.kind != Json::Kind::kInteger) return false;
  *out = value.integer;
  return true;
}

bool Read(const Json& value, std::vector<int64_t>* out) {
  if (value.kind != Json::Kind::kArray) return false;
  out->clear();
  for (const Json& element : value.values) {
    int64_t integer = 0;
    if (!Read(element, &integer)) return false;
    out->push_back(integer);
  }
  return true;
}

bool Read(const Json& value, Shape* out) {
  std::vector<int64_t> dims;
  if (!Read(value, &dims) || dims.size() > kMaxDims) return false;
  *out = Shape::Of(dims);
  return true;
}

std::string Quoted(const std::string& text) { return nlohmann::json(text).dump(); }

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/text.h"
#include "core/checkpoint/index_text.h"
#include "core/plan/shape.h"

namespace shampoo {

// A parsed JSON value. Its destructor, unlike that of nlohmann::json, allocates no memory.
struct Json {
  // kOther: null, a Boolean, a number with a fraction or an exponent, or an integer that int64_t cannot hold.
  enum class Kind { kOther, kInteger, kText, kArray, kObject };
  Kind kind = Kind::kOther;
  int64_t integer = 0;             // only with kInteger
  std::string text;                // only with kText
  std::vector<std::string> names;  // names of an object's members
  std::vector<Json> values;        // values of an object's members, or elements of an array

  bool is_object() const { return kind == Kind::kObject; }
  // Returns the value of the first member with this name. Returns nullptr if there is no such member, or if this value
  // is not an object.
  const Json* Find(std::string_view name) const;
};

// The parser calls a ConsumeObject when it reaches the end of an object. `where` has one string for each object or
// array that contains this object, from the outermost to the innermost: the name of a member, or "" for an array
// element. If the callback returns true, the parser does not add the object to the value that contains it.
using ConsumeObject = std::function<bool(std::span<const std::string> where, const Json& object)>;
// Parse a text. Return false if the text is not JSON, or is nested more deeply than kMaxNested (json.cc) allows.
// consume may be nullptr.
bool ParseJson(IndexText* text, const ConsumeObject& consume, Json* out);
bool ParseJson(std::string_view text, const ConsumeObject& consume, Json* out);

// Convert a value. Return false if the value cannot be converted to the type of *out.
bool Read(const Json& value, std::string* out);
bool Read(const Json& value, int64_t* out);
bool Read(const Json& value, std::vector<int64_t>* out);
bool Read(const Json& value, Shape* out);

// Reads a member of an object. Returns false if the member is missing or cannot be converted to the type of *out.
template <typename Value>
bool Get(const Json& object, const char* name, Value* out) {
  const Json* const found = object.Find(name);
  return found != nullptr && Read(*found, out);
}

// Returns UTF-8 text as a JSON string.
std::string Quoted(const std::string& text);

// Returns integers as a JSON array.
inline std::string Listed(std::span<const int64_t> numbers) {
  std::string text;
  for (const int64_t number : numbers) text += Cat(text.empty() ? "" : ",", number);
  return "[" + text + "]";
}

}  // namespace shampoo

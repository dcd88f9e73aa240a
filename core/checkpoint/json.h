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

// A JSON value that was read. It can be destroyed where there is no memory left, which nlohmann::json cannot.
struct Json {
  enum class Kind { kOther, kInteger, kText, kArray, kObject };  // other: null, a truth value, a fraction
  Kind kind = Kind::kOther;
  int64_t integer = 0;
  std::string text;
  std::vector<std::string> names;  // of an object's members
  std::vector<Json> values;        // of an object's members, or an array's elements

  bool is_object() const { return kind == Kind::kObject; }
  // The first member of that name; nullptr: there is none, or it is no object.
  const Json* Find(std::string_view name) const;
};

// Told of each object as it ends, and of what it is in: the names of the members that lead to it, "" for an element of
// an array. true: it is taken, and what it is in goes without it.
using TakeObject = std::function<bool(std::span<const std::string> where, const Json& object)>;
// false: the text is no JSON, or nested too deeply for a checkpoint.
bool ParseJson(IndexText* text, const TakeObject& take, Json* out);
bool ParseJson(std::string_view text, const TakeObject& take, Json* out);

// What is not of the type is told.
bool Read(const Json& value, std::string* out);
bool Read(const Json& value, int64_t* out);
bool Read(const Json& value, std::vector<int64_t>* out);
bool Read(const Json& value, Shape* out);

// The member of an object.
template <typename Value>
bool Get(const Json& object, const char* name, Value* out) {
  const Json* const found = object.Find(name);
  return found != nullptr && Read(*found, out);
}

// UTF-8 as a JSON string.
std::string Quoted(const std::string& text);

inline std::string Listed(std::span<const int64_t> numbers) {
  std::string text;
  for (const int64_t number : numbers) text += Cat(text.empty() ? "" : ",", number);
  return "[" + text + "]";
}

}  // namespace shampoo

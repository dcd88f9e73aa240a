// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/plan/shape.h"

namespace shampoo {

// JSON that is read without exceptions: what is not there, or not of the type, is told.
using Json = nlohmann::json;

inline bool Read(const Json& value, std::string* out) {
  if (!value.is_string()) return false;
  *out = value.get_ref<const std::string&>();
  return true;
}

inline bool Read(const Json& value, int64_t* out) {
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX)) return false;
  *out = value.get<int64_t>();
  return true;
}

inline bool Read(const Json& value, std::vector<int64_t>* out) {
  if (!value.is_array()) return false;
  out->clear();
  for (const Json& element : value) {
    int64_t integer = 0;
    if (!Read(element, &integer)) return false;
    out->push_back(integer);
  }
  return true;
}

inline bool Read(const Json& value, Shape* out) {
  std::vector<int64_t> dims;
  if (!Read(value, &dims) || dims.size() > kMaxDims) return false;
  *out = Shape::Of(dims);
  return true;
}

// The member of an object.
template <typename Value>
bool Get(const Json& object, const char* name, Value* out) {
  if (!object.is_object()) return false;
  const auto found = object.find(name);
  return found != object.end() && Read(*found, out);
}

// UTF-8 as a JSON string.
inline std::string Quoted(const std::string& text) { return Json(text).dump(); }

inline std::string Listed(std::span<const int64_t> numbers) {
  std::string text;
  for (const int64_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return "[" + text + "]";
}

}  // namespace shampoo

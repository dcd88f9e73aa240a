// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "tests/capi/objects.h"

namespace shampoo_test {

// Returns a message about the first word that the last error does not contain, or "" if it contains all words.
inline std::string MissingWord(std::initializer_list<std::string> words) {
  const std::string text = shampoo_last_error();
  for (const std::string& word : words) {
    if (text.find(word) == std::string::npos) return "\"" + word + "\" is not in: " + text;
  }
  return "";
}

// Checks that a call returns a status code and that its error contains words: CHECK_ERROR(call, code, {"words", "of the
// message"}). Before the call, a failing shampoo_set_log() replaces the last error, so that an older error cannot
// match.
#define CHECK_ERROR(call, expected, ...)                          \
  do {                                                            \
    REQUIRE(shampoo_set_log(nullptr, nullptr, 77) != SHAMPOO_OK); \
    CHECK((call) == (expected));                                  \
    CHECK(::shampoo_test::MissingWord(__VA_ARGS__) == "");        \
  } while (false)

// CHECK_ERROR for the code SHAMPOO_E_INVALID: CHECK_INVALID(call, "words", "of the message")
#define CHECK_INVALID(call, ...) CHECK_ERROR(call, SHAMPOO_E_INVALID, {__VA_ARGS__})

// Returns a number as error messages contain it: in its shortest form, independent of the locale.
template <typename Number>
std::string Text(Number number) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  return std::string(text, end);
}

// SmallParams returns the parameters "weight" (6 x 5) and "bias" (5). SmallKeys returns `more` and keys that divide
// these parameters into blocks that are at most 4 long in each dim.
inline std::vector<shampoo_param_desc> SmallParams(int32_t dtype = SHAMPOO_F32) {
  return {Param("weight", {6, 5}, dtype), Param("bias", {5}, dtype)};
}
inline Keys SmallKeys(const Keys& more) { return "max_preconditioner_dim=4 threads=2" + more; }

inline PlanPtr MakeSmallPlan(const Keys& keys = {}, bool finished = true) {
  PlanPtr plan = MakePlan(SmallKeys(keys));
  for (const shampoo_param_desc& param : SmallParams()) AddParam(plan, param);
  if (finished) RequireOk(shampoo_plan_finish(plan.get()));
  return plan;
}

}  // namespace shampoo_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <shampoo/shampoo.h>

#include <charconv>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace shampoo_test {

// Returns a message about the first of the words that is not in the last error, or "" if all are. The text of an
// earlier failure cannot match because CHECK_ERROR replaces the last error before its call.
inline std::string MissingWord(std::initializer_list<std::string> words) {
  const std::string text = shampoo_last_error();
  for (const std::string& word : words) {
    if (text.find(word) == std::string::npos) return "\"" + word + "\" is not in: " + text;
  }
  return "";
}

// CHECK_ERROR(call, code, {"words", "of the message"})
#define CHECK_ERROR(call, expected, ...)                          \
  do {                                                            \
    REQUIRE(shampoo_set_log(nullptr, nullptr, 77) != SHAMPOO_OK); \
    CHECK((call) == (expected));                                  \
    CHECK(::shampoo_test::MissingWord(__VA_ARGS__) == "");        \
  } while (false)

#define REQUIRE_OK(call) REQUIRE_MESSAGE((call) == SHAMPOO_OK, shampoo_last_error())

struct Destroy {
  void operator()(shampoo_config* config) const { shampoo_config_destroy(config); }
  void operator()(shampoo_plan* plan) const { shampoo_plan_destroy(plan); }
  void operator()(shampoo_optimizer* optimizer) const { shampoo_optimizer_destroy(optimizer); }
};
using ConfigPtr = std::unique_ptr<shampoo_config, Destroy>;
using PlanPtr = std::unique_ptr<shampoo_plan, Destroy>;
using OptimizerPtr = std::unique_ptr<shampoo_optimizer, Destroy>;

using Values = std::vector<std::pair<const char*, const char*>>;

// Returns a number as the library writes it: in its shortest form, independent of the locale.
template <typename Number>
std::string Text(Number number) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  return std::string(text, end);
}

inline ConfigPtr MakeConfig(const Values& values = {}) {
  shampoo_config* config = nullptr;
  REQUIRE_OK(shampoo_config_create(&config));
  ConfigPtr made(config);
  REQUIRE_OK(shampoo_config_set_str(config, "preset", "shampoo_2024"));
  for (const auto& [key, value] : values) REQUIRE_OK(shampoo_config_set_str(config, key, value));
  return made;
}

// Creates an unfinished plan.
inline PlanPtr MakePlan(const Values& values = {}, shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT) {
  const ConfigPtr config = MakeConfig(values);
  shampoo_plan* plan = nullptr;
  REQUIRE_OK(shampoo_plan_create(&plan, config.get(), &desc));
  return PlanPtr(plan);
}

inline shampoo_param_desc ParamDesc(const char* name, std::initializer_list<int64_t> shape,
                                    int32_t dtype = SHAMPOO_F32) {
  shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
  desc.name = name;
  for (const int64_t dim : shape) desc.shape[desc.ndim++] = dim;
  desc.param_dtype = desc.grad_dtype = dtype;
  return desc;
}

// Creates a plan of "weight" (6 x 5) and "bias" (5) with block dims of at most 4.
inline PlanPtr MakeSmallPlan(Values values = {}, int32_t dtype = SHAMPOO_F32, bool finished = true) {
  values.insert(values.begin(), {{"max_preconditioner_dim", "4"}, {"threads", "2"}});
  PlanPtr plan = MakePlan(values);
  const shampoo_param_desc weight = ParamDesc("weight", {6, 5}, dtype);
  const shampoo_param_desc bias = ParamDesc("bias", {5}, dtype);
  REQUIRE_OK(shampoo_plan_add_param(plan.get(), &weight, nullptr));
  REQUIRE_OK(shampoo_plan_add_param(plan.get(), &bias, nullptr));
  if (finished) REQUIRE_OK(shampoo_plan_finish(plan.get()));
  return plan;
}

inline OptimizerPtr MakeOptimizer(const PlanPtr& plan) {
  const shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  shampoo_optimizer* optimizer = nullptr;
  REQUIRE_OK(shampoo_optimizer_create(&optimizer, plan.get(), &desc));
  return OptimizerPtr(optimizer);
}

// Returns every entry of the state as bytes.
inline std::vector<std::vector<char>> ReadState(shampoo_optimizer* optimizer) {
  int64_t count = 0;
  REQUIRE_OK(shampoo_state_count(optimizer, &count));
  std::vector<std::vector<char>> state;
  for (int64_t i = 0; i < count; ++i) {
    shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
    REQUIRE_OK(shampoo_state_describe(optimizer, i, &entry));
    int64_t elements = 1;
    for (int32_t k = 0; k < entry.ndim; ++k) elements *= entry.shape[k];
    std::vector<char> bytes(static_cast<size_t>(elements) * 8);  // enough for the widest dtype
    REQUIRE_OK(shampoo_state_read(optimizer, i, 0, elements, bytes.data(), bytes.size(), SHAMPOO_CPU, nullptr));
    state.push_back(std::move(bytes));
  }
  return state;
}

}  // namespace shampoo_test

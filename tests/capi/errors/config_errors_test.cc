// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string_view>
#include <utility>

#include "errors_test_util.h"
#include "key_table.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

// Returns a config in which every key has the value of AnotherValue(). If a failed call resets a key to its default,
// CheckUnchanged() detects that.
ConfigPtr MakeChangedConfig() {
  ConfigPtr config = MakeConfig();
  for (const shampoo_key_info& key : KeyTable()) {
    RequireOk(shampoo_config_set_str(config.get(), key.name, AnotherValue(key).c_str()));
  }
  return config;
}

void CheckUnchanged(const ConfigPtr& config) {
  for (const shampoo_key_info& key : KeyTable()) {
    CHECK(std::string(shampoo_config_get(config.get(), key.name)) == AnotherValue(key));
  }
}

std::vector<std::string> WrongTexts(const shampoo_key_info& key) {
  std::vector<std::string> texts = {"",      " ",   "\t",       "garbage", "nan",     "NaN",  "inf",
                                    "-inf",  "1x",  "0.5.5",    "1 1",     "true1",   ",",    "Auto",
                                    "1e999", "--1", "\xc3\xa9", "0x10",    "\"f32\"", "f32\n"};
  const std::string_view type = key.value_type;
  const auto add = [&](std::initializer_list<const char*> more) {
    texts.insert(texts.end(), more.begin(), more.end());
  };
  if (type == "f64") add({"0,5", "1e", "e3", "true", "1e-3f"});
  if (type == "i64") add({"1.5", "1e3", "3.0", "99999999999999999999", "-99999999999999999999", "true"});
  if (type == "bool") add({"yes", "2", "-1", "TRUE", "True", "on", "1.0"});
  if (type == "choice") add({"0", "1", "lamb", "EIGEN", "Parameters"});
  if (type == "dtype") add({"1", "F32", "float32", "i32", "f8", "fp16"});
  if (type == "text") add({"1,2", "1,2,3,4", "1,2,3;", ";1,2,3", "1,2,x", "1,2,inf", "jordan;quintic", "Jordan"});
  if (type == "list") add({"0,,2", "0,2,", ",2", "-1", "0,-2", "1.5", "0;2", "0 2", "99999999999999999999"});
  if (std::string_view(key.default_value) != "auto") add({"auto"});
  return texts;
}

TEST_CASE("every key rejects a string that is not one of its values and reports what it accepts") {
  const ConfigPtr config = MakeChangedConfig();
  for (const shampoo_key_info& key : KeyTable()) {
    for (const std::string& text : WrongTexts(key)) {
      CAPTURE_ALL(key.name, text);
      // If the value consists only of blanks, the message may omit them.
      const std::string shown = text.find_first_not_of(" \t") == std::string::npos ? "" : text;
      const char* const quote = shown.empty() ? "" : "\"";
      CHECK_INVALID(shampoo_config_set_str(config.get(), key.name, text.c_str()),
                    std::string("key ") + key.name + ": the value \"", quote + shown + "\"", key.value_type, key.range);
    }
    CHECK_INVALID(shampoo_config_set_str(config.get(), key.name, nullptr), key.name, "NULL", key.range);
  }
  CheckUnchanged(config);
}

TEST_CASE("every f64 key rejects NaN, infinity and numbers outside its range") {
  const ConfigPtr config = MakeChangedConfig();
  for (const shampoo_key_info& key : KeyTable()) {
    if (std::string_view(key.value_type) != "f64") continue;
    std::vector<double> wrong = OutsideOf(key);
    for (const double value : {NAN, INFINITY}) wrong.insert(wrong.end(), {value, -value});
    for (const double value : wrong) {
      CAPTURE_ALL(key.name, value);
      const std::string text = Text(value);
      CHECK_INVALID(shampoo_config_set_f64(config.get(), key.name, value), std::string("key ") + key.name,
                    " " + text + " ", key.range);
      CHECK_INVALID(shampoo_config_set_str(config.get(), key.name, text.c_str()), key.name, "\"" + text + "\"",
                    key.range);
    }
  }
  CheckUnchanged(config);
}

TEST_CASE("an f64 key rejects an integer with a magnitude above 2^53") {
  const ConfigPtr config = MakeChangedConfig();
  for (const int64_t value : {(INT64_C(1) << 53) + 1, INT64_MAX, INT64_MIN}) {
    CHECK_INVALID(shampoo_config_set_i64(config.get(), "lr", value), "key lr", " " + Text(value) + " ",
                  "shampoo_config_set_f64");
  }
  CHECK(shampoo_config_set_i64(config.get(), "lr", INT64_C(1) << 53) == SHAMPOO_OK);
}

TEST_CASE("every i64 and bool key rejects an integer outside its range") {
  const ConfigPtr config = MakeChangedConfig();
  for (const shampoo_key_info& key : KeyTable()) {
    const bool flag = std::string_view(key.value_type) == "bool";
    if (!flag && std::string_view(key.value_type) != "i64") continue;
    std::vector<int64_t> wrong = {INT64_MIN, INT64_MAX};
    if (flag) wrong.insert(wrong.end(), {-1, 2});
    if (!flag) {
      for (const double value : OutsideOf(key)) wrong.push_back(static_cast<int64_t>(std::floor(value)));
      // 2^53 + 1 is outside the range, but its conversion to double gives 2^53, which is in the range.
      if (std::string_view(key.range).find("2^53") != std::string_view::npos) wrong.push_back((INT64_C(1) << 53) + 1);
    }
    for (const int64_t value : wrong) {
      CAPTURE(key.name);
      CHECK_INVALID(shampoo_config_set_i64(config.get(), key.name, value), std::string("key ") + key.name,
                    " " + Text(value) + " ", key.value_type, key.range);
    }
  }
  CheckUnchanged(config);
}

TEST_CASE("an integer for an f64 key must be in the range of the key") {
  const ConfigPtr config = MakeChangedConfig();
  CHECK_INVALID(shampoo_config_set_i64(config.get(), "lr", -1), "key lr", " -1 ", ">= 0");
  CHECK_INVALID(shampoo_config_set_i64(config.get(), "beta1", 1), "key beta1", " 1 ", "[0, 1)");
  CHECK_INVALID(shampoo_config_set_i64(config.get(), "beta2", 0), "key beta2", " 0 ", "(0, 1]");
  CheckUnchanged(config);
}

TEST_CASE("if a setter has the wrong type for a key, the error reports the key's type and the setter to use") {
  const ConfigPtr config = MakeChangedConfig();
  for (const shampoo_key_info& key : KeyTable()) {
    const std::string_view type = key.value_type;
    CAPTURE(key.name);
    if (type != "f64") {
      const char* const function =
          type == "i64" || type == "bool" ? "shampoo_config_set_i64" : "shampoo_config_set_str";
      CHECK_INVALID(shampoo_config_set_f64(config.get(), key.name, 2.5), key.name, "type " + std::string(type), "2.5",
                    function);
    }
    if (type != "f64" && type != "i64" && type != "bool") {
      CHECK_INVALID(shampoo_config_set_i64(config.get(), key.name, 12), key.name, "type " + std::string(type), "12",
                    "shampoo_config_set_str", key.range);
    }
  }
  CheckUnchanged(config);
}

TEST_CASE("an unknown key is rejected, and a similar name is suggested") {
  const ConfigPtr config = MakeChangedConfig();
  CHECK_INVALID(shampoo_config_set_f64(config.get(), "epsilom", 1), "\"epsilom\"", "did you mean epsilon?",
                "docs/keys.md lists all keys");
  CHECK_INVALID(shampoo_config_set_i64(config.get(), "thread", 1), "\"thread\"", "did you mean threads?");
  CHECK_INVALID(shampoo_config_set_str(config.get(), "Grafting", "adam"), "\"Grafting\"", "did you mean grafting?");
  CHECK_INVALID(shampoo_config_set_f64(config.get(), "", 1), "\"\"");
  CheckUnchanged(config);
}

TEST_CASE("a name that is not similar to any key gets no suggestion") {
  const ConfigPtr config = MakeChangedConfig();
  for (const std::string name : {"foo", "kw", "x", "seed", "a key that no one has"}) {
    CAPTURE(name);
    CHECK_INVALID(shampoo_config_set_f64(config.get(), name.c_str(), 1), "\"" + name + "\"",
                  "docs/keys.md lists all keys");
    CHECK(!Has(shampoo_last_error(), {"did you mean"}));
  }
  CheckUnchanged(config);
}

TEST_CASE("the error about a name from another optimizer library says what to use instead") {
  const ConfigPtr config = MakeChangedConfig();
  const struct {
    const char* name;
    const char* answer;
  } cases[] = {
      {"learning_rate", "use lr"},
      {"eps", "use grafting_epsilon (of the grafting method) or epsilon (of the inverse roots, or of method adam)"},
      {"betas", "use beta1 for the first value, and grafting_beta2"},
      {"update_freq", "use precondition_frequency"},
      {"preconditioning_compute_steps", "use precondition_frequency"},
      {"precondition_every", "use precondition_frequency"},
      {"stats_decay", "use beta2"},
      {"matrix_epsilon", "use epsilon"},
      {"graft_type", "use grafting"},
      {"decoupled_weight_decay", "use weight_decay_type"},
      {"Learning-Rate", "use lr"},
      {"LR", "did you mean lr?"},
      {"preconditionFrequency", "did you mean precondition_frequency?"},
      {"statistics_compute_steps", "use factor_update_frequency"},
      {"maximize", "pass gradients with the opposite sign"},
  };
  for (const auto& each : cases) {
    CHECK_INVALID(shampoo_config_set_f64(config.get(), each.name, 1), each.name, each.answer);
  }
  CheckUnchanged(config);
}

TEST_CASE("a misspelled choice gets a suggestion only if it is similar to a valid choice") {
  const ConfigPtr config = MakeChangedConfig();
  const struct {
    const char* key;
    const char* value;
    const char* answer;
  } cases[] = {
      {"grafting", "adamw", "did you mean adam?"},      {"grafting", "Adam", "did you mean adam?"},
      {"grafting", "RMSProp", "did you mean rmsprop?"}, {"root_method", "Higher-Order", "did you mean higher_order?"},
      {"factor_dtype", "float32", "did you mean f32?"}, {"factor_dtype", "BF16", "did you mean bf16?"},
      {"use_nesterov", "True", "did you mean true?"},   {"epsilon", "Auto", "did you mean auto?"},
  };
  for (const auto& each : cases) {
    CHECK_INVALID(shampoo_config_set_str(config.get(), each.key, each.value), each.key, each.value, each.answer);
  }
  for (const auto& [key, value] :
       {std::pair("grafting", "lion"), std::pair("lr", "fast"), std::pair("threads", "all")}) {
    CHECK_INVALID(shampoo_config_set_str(config.get(), key, value), key, value, "expected");
    CHECK(!Has(shampoo_last_error(), {"did you mean"}));
  }
  CheckUnchanged(config);
}

TEST_CASE("functions of a config reject NULL and name the argument in the error") {
  const ConfigPtr config = MakeChangedConfig();
  auto* const untouched = config.get();
  shampoo_config* out = untouched;
  CHECK_INVALID(shampoo_config_create(nullptr), "out is NULL");
  CHECK_INVALID(shampoo_config_clone(nullptr, config.get()), "out is NULL");
  CHECK_INVALID(shampoo_config_clone(&out, nullptr), "config is NULL");
  CHECK(out == untouched);
  CHECK_INVALID(shampoo_config_set_f64(nullptr, "lr", 1), "config is NULL");
  CHECK_INVALID(shampoo_config_set_i64(nullptr, "threads", 1), "config is NULL");
  CHECK_INVALID(shampoo_config_set_str(nullptr, "lr", "1"), "config is NULL");
  CHECK_INVALID(shampoo_config_set_f64(config.get(), nullptr, 1), "key is NULL");
  CHECK_INVALID(shampoo_config_set_i64(config.get(), nullptr, 1), "key is NULL");
  CHECK_INVALID(shampoo_config_set_str(config.get(), nullptr, "1"), "key is NULL");
  CheckUnchanged(config);
  shampoo_config_destroy(nullptr);
}

TEST_CASE("shampoo_config_get returns NULL for unknown keys and NULL arguments, and does not change the last error") {
  const ConfigPtr config = MakeConfig();
  CHECK_INVALID(shampoo_config_create(nullptr), "out");
  const std::string before = shampoo_last_error();
  CHECK(shampoo_config_get(config.get(), "lrr") == nullptr);
  CHECK(shampoo_config_get(config.get(), nullptr) == nullptr);
  CHECK(shampoo_config_get(nullptr, "lr") == nullptr);
  CHECK(shampoo_last_error() == before);
}

TEST_CASE("shampoo_config_describe_key rejects indices of keys that do not exist") {
  shampoo_key_info info = SHAMPOO_KEY_INFO_INIT;
  const int32_t count = shampoo_config_key_count();
  for (const int32_t index : {-1, count, INT32_MAX, INT32_MIN}) {
    CHECK_INVALID(shampoo_config_describe_key(index, &info), "index is " + Text(index), "0 to " + Text(count - 1));
  }
  CHECK(info.name == nullptr);
  CHECK_INVALID(shampoo_config_describe_key(0, nullptr), "info is NULL");
}

TEST_CASE("setting a key to a string that shampoo_config_get has returned restores the value") {
  shampoo_config* made = nullptr;
  RequireOk(shampoo_config_create(&made));
  const ConfigPtr config(made);
  for (const shampoo_key_info& key : KeyTable()) {
    if (std::string_view(key.name) == "preset") continue;  // its value cannot be replaced by another preset
    CAPTURE(key.name);
    CHECK(std::string(shampoo_config_get(config.get(), key.name)) == key.default_value);
    RequireOk(shampoo_config_set_str(config.get(), key.name, AnotherValue(key).c_str()));
    CHECK(std::string(shampoo_config_get(config.get(), key.name)) == AnotherValue(key));
    RequireOk(shampoo_config_set_str(config.get(), key.name, key.default_value));
    CHECK(std::string(shampoo_config_get(config.get(), key.name)) == key.default_value);
  }
}

}  // namespace
}  // namespace shampoo_test

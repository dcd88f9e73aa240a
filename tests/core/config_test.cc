// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/config/config.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/core/plan_test_util.h"

namespace shampoo {
namespace {

TEST_CASE("every row of the key table is whole, and its default passes its own check") {
  std::set<std::string> names;
  for (const Key& key : Keys()) {
    CAPTURE(key.name);
    CHECK(names.insert(key.name).second);
    CHECK(std::string(key.doc).size() > 20);
    CHECK(!RangeText(key).empty());
    Value value;
    CHECK(ParseValue(key, key.default_text, &value).ok());
    CHECK(value.text == key.default_text);
    CHECK((key.type != KeyType::kF64 || key.number != nullptr));
    CHECK((key.type != KeyType::kI64 || key.integer != nullptr));
    CHECK((key.type != KeyType::kBool || key.flag != nullptr));
    CHECK((key.type != KeyType::kDtype || key.dtype != nullptr));
    CHECK((!key.changeable || key.number != nullptr));
  }
}

TEST_CASE("defaults resolve to what the key table promises") {
  Settings settings;
  REQUIRE(Config().Resolve(&settings).ok());
  CHECK(settings.lr == 0.01);
  CHECK(settings.beta2 == 1);
  CHECK(settings.epsilon == 1e-12);
  CHECK(settings.start_preconditioning_step == 1);
  CHECK(settings.use_merge_dims);
  CHECK(settings.use_bias_correction);
  CHECK(!settings.computation_dtype.has_value());
  CHECK(settings.grafting == Grafting::kNone);
}

TEST_CASE("automatic defaults follow the grafting method") {
  struct Expected {
    const char* grafting;
    double beta2;
    double epsilon;
  };
  for (const auto& [grafting, beta2, epsilon] :
       {Expected{"rmsprop", 0.99, 1e-8}, {"adam", 0.999, 1e-8}, {"adagrad", 1.0, 1e-10}}) {
    Config config;
    Settings settings;
    REQUIRE(config.SetText("grafting", grafting).ok());
    REQUIRE(config.Resolve(&settings).ok());
    CHECK(settings.grafting_beta2 == beta2);
    CHECK(settings.grafting_epsilon == epsilon);
    REQUIRE(config.SetNumber("grafting_epsilon", 1e-3).ok());
    REQUIRE(config.Resolve(&settings).ok());
    CHECK(settings.grafting_epsilon == 1e-3);
  }
}

TEST_CASE("the start step is resolved from the frequency and may not lie before it") {
  Config config;
  Settings settings;
  REQUIRE(config.SetInteger("precondition_frequency", 5).ok());
  REQUIRE(config.Resolve(&settings).ok());
  CHECK(settings.start_preconditioning_step == 5);
  for (int64_t start : {0, 4}) {
    REQUIRE(config.SetInteger("start_preconditioning_step", start).ok());
    const Status status = config.Resolve(&settings);
    CHECK(status.code() == Code::kInvalid);
    CHECK(status.message().find("precondition_frequency is 5") != std::string::npos);
  }
  REQUIRE(config.SetInteger("precondition_frequency", 1).ok());
  REQUIRE(config.SetInteger("start_preconditioning_step", 0).ok());
  REQUIRE(config.Resolve(&settings).ok());
  CHECK(settings.start_preconditioning_step == 1);
}

// Where the reference takes a 0 in a list literally (and then fails), 0 is the default here; no block has order 0.
TEST_CASE("golden: the root of each order") {
  int checked = 0;
  for (const auto& entry : plan_test::GoldenEntries("inverse_roots")) {
    Settings settings;
    if (entry.at("inv_root_override").is_number()) {
      settings.inverse_root_override = {entry.at("inv_root_override").get<int64_t>()};
    } else {
      settings.inverse_root_override = entry.at("inv_root_override").get<std::vector<int64_t>>();
      if (settings.inverse_root_override.size() < 2) settings.inverse_root_override = {0};  // entry 0 alone: no effect
    }
    for (size_t i = 0; i < entry.at("orders").size(); ++i) {
      const int order = entry.at("orders")[i].get<int>();
      const auto root = entry.at("roots")[i].get<int64_t>();
      if (order == 0) continue;
      CHECK(settings.RootFor(order) == (root == 0 ? 2 * order : root));
      ++checked;
    }
  }
  CHECK(checked == 22);
}

TEST_CASE("lists are parsed, and written in one form") {
  const Key& key = *FindKey("inverse_root_override");
  std::vector<int64_t> elements;
  REQUIRE(ParseList(key, "0, 2,4", &elements).ok());
  CHECK(elements == std::vector<int64_t>{0, 2, 4});
  Value value;
  REQUIRE(ParseValue(key, " 0, 2 ,4", &value).ok());
  CHECK(value.text == "0,2,4");
  for (const char* wrong : {"", ",", "1,", "1,,2", "1,-2", "1.5", "a", "1 2", "99999999999999999999"}) {
    CAPTURE(wrong);
    CHECK(!ParseValue(key, wrong, &value).ok());
  }
}

}  // namespace
}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "key_table.h"
#include "small_model.h"

namespace shampoo_test {
namespace {

TEST_CASE("shampoo_optimizer_set rejects keys that cannot be changed and lists those that can be changed") {
  const SmallModel model;
  for (const shampoo_key_info& key : KeyTable()) {
    if (key.changeable == 1) continue;
    CAPTURE(key.name);
    CHECK_INVALID(shampoo_optimizer_set(model.get(), 0, key.name, 1), std::string("key \"") + key.name + "\"", "fixed",
                  "lr, beta1, beta2", "gradient_scale");
  }
  CHECK_INVALID(shampoo_optimizer_set(model.get(), 0, "lrr", 1), "\"lrr\"", "not exist", "lr, beta1");
  CHECK_INVALID(shampoo_optimizer_set(model.get(), 0, nullptr, 1), "key is NULL", "lr, beta1");
  CHECK_INVALID(shampoo_optimizer_set(nullptr, 0, "lr", 1), "opt is NULL");
  for (const int32_t group : {-1, 1}) {
    CHECK_INVALID(shampoo_optimizer_set(model.get(), group, "lr", 1), "group is " + Text(group), "expected 0");
    CHECK(std::string(shampoo_last_error()).ends_with(": expected 0"));
  }
  CHECK(model.Get("lr") == 0.01);
}

TEST_CASE("shampoo_optimizer_set rejects a value outside the range of its key") {
  const SmallModel model;
  // If the method does not use a key, shampoo_optimizer_get fails. The test therefore compares the status, too.
  const auto status_and_value = [&model](const char* key) {
    double value = 0;
    const shampoo_status status = shampoo_optimizer_get(model.get(), 0, key, &value);
    return std::pair(status, value);
  };
  for (const shampoo_key_info& key : KeyTable()) {
    if (key.changeable != 1) continue;
    std::vector<double> wrong = {NAN, INFINITY, -INFINITY};
    for (const double value : OutsideOf(key)) wrong.push_back(value);
    const std::pair<shampoo_status, double> before = status_and_value(key.name);
    for (const double value : wrong) {
      CAPTURE(key.name);
      CHECK_INVALID(shampoo_optimizer_set(model.get(), 0, key.name, value), std::string("key ") + key.name,
                    " " + Text(value) + " ", key.range);
      CHECK(std::string(shampoo_optimizer_error(model.get())) == shampoo_last_error());
    }
    CHECK((status_and_value(key.name) == before));
  }
  CHECK_INVALID(shampoo_optimizer_set(model.get(), 0, "epsilon", 0), "epsilon", "value 0", "> 0");
  CHECK(model.Get("epsilon") == 1e-12);
}

TEST_CASE("a number that does not fit float32 is rejected if steps compute in float32") {
  const std::pair<const char*, const char*> beyond[] = {
      {"lr", "1e39"}, {"gradient_scale", "-1e300"}, {"weight_decay", "1e39"}, {"grafting_epsilon", "1e-50"}};
  for (const auto& [key, value] : beyond) {
    CAPTURE(key);
    const Keys keys = {{key, value}, {"grafting", "adam"}};
    const PlanPtr plan = MakeSmallPlan(keys, /*finished=*/false);
    CHECK_INVALID(shampoo_plan_finish(plan.get()), "parameter \"weight\"", std::string("key ") + key,
                  "computation_dtype=f32");
    const SmallModel wide(keys, SHAMPOO_F64);  // the number fits float64
    const SmallModel model(Keys("grafting=adam"));
    const double before = model.Get(key);
    const double number = std::strtod(value, nullptr);
    CHECK_INVALID(shampoo_optimizer_set(model.get(), 0, key, number), std::string("key ") + key,
                  "computation_dtype=f32");
    CHECK(model.Get(key) == before);
    CHECK(shampoo_optimizer_set(wide.get(), 0, key, number) == SHAMPOO_OK);
  }
  BoundModel model;
  const double lr = 1e39;
  RequireOk(shampoo_optimizer_bind_scalar(model.get(), 0, "lr", SHAMPOO_F64, &lr));
  CheckStepFails(&model, SHAMPOO_E_INVALID, {"group 0", "key lr", "f32"});
}

TEST_CASE("beta1 and momentum cannot be set above 0 if the plan has no state for them") {
  const SmallModel model(Keys("beta1=0"));
  for (const char* key : {"beta1", "momentum"}) {
    CHECK_ERROR(shampoo_optimizer_set(model.get(), 0, key, 0.5), SHAMPOO_E_STATE,
                {std::string("key ") + key, "was 0", "above 0"});
    CHECK(model.Get(key) == 0);
    CHECK(shampoo_optimizer_set(model.get(), 0, key, 0) == SHAMPOO_OK);
  }
  const SmallModel adagrad(Keys("grafting=adagrad"));
  CHECK_INVALID(shampoo_optimizer_set(adagrad.get(), 0, "grafting_beta2", 0.5), "grafting_beta2", "0.5", "adagrad",
                "rmsprop");
  CHECK(adagrad.Get("grafting_beta2") == 1);
}

TEST_CASE("shampoo_optimizer_get rejects keys that are not numbers, and a failed get leaves *value_out unchanged") {
  const SmallModel model;
  double value = -77;
  for (const shampoo_key_info& key : KeyTable()) {
    const std::string type = key.value_type;
    if (type == "f64" || type == "i64" || type == "bool") continue;
    CAPTURE(key.name);
    CHECK_INVALID(shampoo_optimizer_get(model.get(), 0, key.name, &value), std::string("key ") + key.name,
                  "type " + type, "shampoo_config_get");
  }
  CHECK_INVALID(shampoo_optimizer_get(model.get(), 0, "lrr", &value), "\"lrr\"");
  CHECK_INVALID(shampoo_optimizer_get(model.get(), 0, nullptr, &value), "key is NULL");
  CHECK_INVALID(shampoo_optimizer_get(model.get(), 0, "lr", nullptr), "value_out is NULL");
  CHECK_INVALID(shampoo_optimizer_get(nullptr, 0, "lr", &value), "opt is NULL");
  CHECK_INVALID(shampoo_optimizer_get(model.get(), 1, "lr", &value), "group is 1", "expected 0");
  CHECK(std::string(shampoo_last_error()).ends_with(": expected 0"));
  CHECK_INVALID(shampoo_optimizer_stat(model.get(), "step", &value), "\"step\"", "steps", "root_computed",
                "root_reused");
  CHECK_INVALID(shampoo_optimizer_stat(model.get(), nullptr, &value), "key is NULL");
  CHECK_INVALID(shampoo_optimizer_stat(model.get(), "steps", nullptr), "value_out is NULL");
  CHECK_INVALID(shampoo_optimizer_stat(nullptr, "steps", &value), "opt is NULL");
  CHECK_INVALID(shampoo_optimizer_bind_scalar(nullptr, 0, "lr", SHAMPOO_F64, &value), "opt is NULL");
  CHECK(value == -77);
}

TEST_CASE("a step that fails because of its gradients does not store the bound scalars") {
  BoundModel model;
  const double lr = 0.5;
  RequireOk(shampoo_optimizer_bind_scalar(model.get(), 0, "lr", SHAMPOO_F64, &lr));
  model.tensors[0].g.Set(0, NAN);
  CheckStepFails(&model, SHAMPOO_E_NUMERIC, {"NaN"});
  CHECK(model.Get("lr") == 0.01);
}

TEST_CASE("a step checks the bound scalars that it reads") {
  BoundModel model;
  double lr = 0.5;
  float scale = 1;
  RequireOk(shampoo_optimizer_bind_scalar(model.get(), 0, "lr", SHAMPOO_F64, &lr));
  RequireOk(shampoo_optimizer_bind_scalar(model.get(), 0, "gradient_scale", SHAMPOO_F32, &scale));
  RequireOk(model.TryStep());
  for (const double bad : {double{NAN}, double{INFINITY}, -1.0}) {
    lr = bad;
    CheckStepFails(&model, SHAMPOO_E_INVALID, {"scalar bound to group 0", "key lr", " " + Text(bad) + " ", ">= 0"});
  }
  lr = 0.25;  // valid, but not stored because gradient_scale is invalid
  scale = NAN;
  CheckStepFails(&model, SHAMPOO_E_INVALID, {"scalar bound to group 0", "key gradient_scale", "nan", "finite"});
  CHECK(model.Get("lr") == 0.5);
  CHECK(model.Get("gradient_scale") == 1);
  scale = 2;
  CHECK(model.TryStep() == SHAMPOO_OK);
  CHECK(model.Get("lr") == 0.25);
}

}  // namespace
}  // namespace shampoo_test

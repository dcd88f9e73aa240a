// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Values of the root keys that contradict each other.
#include "small_model.h"

namespace shampoo_test {
namespace {

struct Contradiction {
  Values values;
  std::vector<std::string> words;
};

const std::vector<Contradiction>& Contradictions() {
  static const std::vector<Contradiction> all = {
      {{{"root_method", "newton"}, {"exponent_multiplier", "1.5"}},
       {"exponent_multiplier", "1.5", "newton", "expected 1"}},
      {{{"root_method", "higher_order"}, {"exponent_multiplier", "0.5"}},
       {"exponent_multiplier", "0.5", "higher_order", "expected 1"}},
      {{{"root_method", "newton"}, {"root_rank_handling", "pseudo_inverse"}, {"epsilon", "0"}},
       {"root_rank_handling", "pseudo_inverse", "newton", "expected root_method eigen"}},
      {{{"root_rank_handling", "pseudo_inverse"}, {"epsilon", "1e-6"}},
       {"epsilon", "1e-06", "pseudo_inverse", "expected 0"}},
  };
  return all;
}

TEST_CASE("root keys that contradict each other are rejected by a plan and by shampoo_matrix_inverse_root") {
  for (const Contradiction& contradiction : Contradictions()) {
    const ConfigPtr config = MakeConfig(contradiction.values);
    shampoo_plan* plan = nullptr;
    const shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT;
    CHECK(shampoo_plan_create(&plan, config.get(), &desc) == SHAMPOO_E_INVALID);
    CHECK(plan == nullptr);
    for (const std::string& word : contradiction.words) CHECK(MissingWord({word}) == "");
    double a = 1;
    double x = -7;
    CHECK(shampoo_matrix_inverse_root(config.get(), 1, SHAMPOO_F64, &a, &x, 2, 1, nullptr) == SHAMPOO_E_INVALID);
    CHECK(x == -7);
    for (const std::string& word : contradiction.words) CHECK(MissingWord({word}) == "");
  }
}

TEST_CASE("newton rejects a root that is not an integer") {
  const ConfigPtr config = MakeConfig({{"root_method", "newton"}});
  double a = 1;
  double x = -7;
  CHECK_ERROR(shampoo_matrix_inverse_root(config.get(), 1, SHAMPOO_F64, &a, &x, 4, 3, nullptr), SHAMPOO_E_INVALID,
              {"root_num is 4", "root_den 3", "multiple of root_den", "higher_order"});
  CHECK(x == -7);
  CHECK(shampoo_matrix_inverse_root(config.get(), 1, SHAMPOO_F64, &a, &x, 4, 2, nullptr) == SHAMPOO_OK);
}

TEST_CASE("with pseudo_inverse epsilon must stay 0, and get reports that root_rank_rtol is auto") {
  const SmallModel model(Values{{"root_rank_handling", "pseudo_inverse"}, {"epsilon", "0"}});
  CHECK_ERROR(shampoo_optimizer_set(model.get(), 0, "epsilon", 1e-6), SHAMPOO_E_INVALID,
              {"epsilon", "pseudo_inverse", "expected 0"});
  CHECK(shampoo_optimizer_set(model.get(), 0, "epsilon", 0) == SHAMPOO_OK);
  double value = -7;
  CHECK_ERROR(shampoo_optimizer_get(model.get(), 0, "root_rank_rtol", &value), SHAMPOO_E_INVALID,
              {"root_rank_rtol", "auto", "machine epsilon"});
  CHECK(value == -7);
}

TEST_CASE("fields of another kind of shard must be 0") {
  const PlanPtr plan = MakeSmallPlan({}, SHAMPOO_F32, /*finished=*/false);
  shampoo_param_desc flat = ParamDesc("flat", {10});
  flat.flat_offset = 5;
  flat.flat_count = 5;
  CHECK_ERROR(shampoo_plan_add_param(plan.get(), &flat, nullptr), SHAMPOO_E_INVALID,
              {"\"flat\"", "flat_offset is 5", "shard_form is 0", "set shard_form to 1"});
  shampoo_param_desc rectangle = ParamDesc("rectangle", {10});
  rectangle.local_shape[0] = 3;
  CHECK_ERROR(shampoo_plan_add_param(plan.get(), &rectangle, nullptr), SHAMPOO_E_INVALID,
              {"\"rectangle\"", "local_shape[0] 3", "shard_form is 0", "set shard_form to 2"});
}

TEST_CASE("key names of other optimizers get a suggestion") {
  const ConfigPtr config = MakeConfig({});
  CHECK_ERROR(shampoo_config_set_f64(config.get(), "learning_rate", 1), SHAMPOO_E_INVALID, {"learning_rate", "use lr"});
  CHECK_ERROR(shampoo_config_set_f64(config.get(), "eps", 1), SHAMPOO_E_INVALID,
              {"use grafting_epsilon (of the grafted method) or epsilon (of the inverse roots)"});
  CHECK_ERROR(shampoo_config_set_str(config.get(), "betas", "1"), SHAMPOO_E_INVALID,
              {"betas", "beta1, and grafting_beta2"});
}

}  // namespace
}  // namespace shampoo_test

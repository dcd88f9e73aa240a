// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests that invalid and contradictory values of the keys for inverse roots are rejected.
#include "small_model.h"

namespace shampoo_test {
namespace {

TEST_CASE("keys that contradict each other are rejected by a plan and by shampoo_matrix_inverse_root") {
  const struct {
    Keys keys;
    std::vector<std::string> words;
  } contradictions[] = {
      {"root_method=newton exponent_multiplier=1.5", {"exponent_multiplier", "1.5", "newton", "expected 1"}},
      {"root_method=higher_order exponent_multiplier=0.5",
       {"exponent_multiplier", "0.5", "higher_order", "expected 1"}},
      {"root_method=newton root_rank_handling=pseudo_inverse epsilon=0",
       {"root_rank_handling", "pseudo_inverse", "newton", "expected root_method=eigen"}},
      {"root_method=cans root_rank_handling=pseudo_inverse epsilon=0",
       {"root_rank_handling", "pseudo_inverse", "cans", "expected root_method=eigen"}},
      {"root_rank_handling=pseudo_inverse epsilon=1e-6", {"epsilon", "1e-06", "pseudo_inverse", "expected 0"}},
      {"start_preconditioning_step=3 precondition_frequency=5",
       {"start_preconditioning_step is 3", "precondition_frequency is 5", "at least 5"}},
      {"precondition_frequency=3 root_async=3", {"root_async is 3 and precondition_frequency is 3"}},
  };
  for (const auto& [keys, words] : contradictions) {
    CAPTURE(keys);
    PlanError(keys);
    for (const std::string& word : words) CHECK(MissingWord({word}) == "");
    double a = 1;
    double x = -7;
    CHECK(shampoo_matrix_inverse_root(MakeConfig(keys).get(), 1, SHAMPOO_F64, &a, &x, 2, 1, nullptr) ==
          SHAMPOO_E_INVALID);
    CHECK(x == -7);
    for (const std::string& word : words) CHECK(MissingWord({word}) == "");
  }
}

TEST_CASE("root_method=newton rejects a root such as 4/3 that is not an integer") {
  const ConfigPtr config = MakeConfig("root_method=newton");
  double a = 1;
  double x = -7;
  CHECK_INVALID(shampoo_matrix_inverse_root(config.get(), 1, SHAMPOO_F64, &a, &x, 4, 3, nullptr), "root_num is 4",
                "root_den is 3", "multiple of root_den", "higher_order");
  CHECK(x == -7);
  CHECK(shampoo_matrix_inverse_root(config.get(), 1, SHAMPOO_F64, &a, &x, 4, 2, nullptr) == SHAMPOO_OK);
}

TEST_CASE(
    "with root_rank_handling=pseudo_inverse, epsilon cannot be set above 0, and shampoo_optimizer_get cannot "
    "return the value auto of root_rank_rtol") {
  const SmallModel model(Keys("root_rank_handling=pseudo_inverse epsilon=0"));
  CHECK_INVALID(shampoo_optimizer_set(model.get(), 0, "epsilon", 1e-6), "epsilon", "pseudo_inverse", "expected 0");
  CHECK(shampoo_optimizer_set(model.get(), 0, "epsilon", 0) == SHAMPOO_OK);
  double value = -7;
  CHECK_INVALID(shampoo_optimizer_get(model.get(), 0, "root_rank_rtol", &value), "root_rank_rtol", "auto",
                "machine epsilon");
  CHECK(value == -7);
}

}  // namespace
}  // namespace shampoo_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests that shampoo_plan_create rejects keys that the method of the config does not read. Tests that
// shampoo_plan_finish rejects keys for norms, such as update_norm, if a parameter has several blocks.
#include <algorithm>

#include "errors_test_util.h"
#include "key_table.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

TEST_CASE("if the method of a group does not read a key, the error names the method, the key and the value") {
  const struct {
    const char* method;
    std::vector<std::string> keys;
  } unread[] = {
      {"adam", {"shampoo_beta",      "kl_eigenvalues",   "kl_init",           "kl_cap",
                "basis_method",      "basis_iterations", "basis_tolerance",   "skip_dim_size",
                "basis_sort",        "basis_transport",  "basis_epsilon",     "factor_start",
                "relative_epsilon",  "basis_order",      "first_step",        "basis_init",
                "inverse_exponent",  "drop_weighting",   "factor_correction", "factor_update_frequency",
                "precondition_dims", "ignored_dims"}},
      {"shampoo",
       {"shampoo_beta", "kl_eigenvalues", "kl_init", "kl_cap", "basis_method", "basis_iterations", "basis_tolerance",
        "basis_sort", "basis_transport", "basis_epsilon", "factor_start", "relative_epsilon", "basis_order",
        "first_step", "basis_init", "inverse_exponent"}},
      {"kl_shampoo",
       {"relative_epsilon", "basis_order", "first_step", "basis_init", "inverse_exponent", "drop_weighting"}},
      {"soap", {"root_method", "root_async", "refresh_growth", "inverse_root_override", "initial_inverse"}},
  };
  for (const auto& one : unread) {
    for (const shampoo_key_info& key : KeyTable()) {
      if (std::find(one.keys.begin(), one.keys.end(), std::string(key.name)) == one.keys.end()) continue;
      CAPTURE_ALL(one.method, key.name);
      const std::string value = AnotherValue(key);
      PlanError({{"method", one.method}, {key.name, value}});
      CHECK(MissingWord({std::string("key ") + key.name + ": the value " + value, one.method, "expected"}) == "");
    }
  }
}

TEST_CASE("the error about keys for norms says which block size a parameter of several blocks needs") {
  for (const Keys& keys : {Keys("update_norm=rms"), Keys("max_update_rms=1"), Keys("norm_control=hyperball")}) {
    for (const char* const method : {"shampoo", "soap", "kl_shampoo"}) {
      CAPTURE_ALL(method, keys[0].first);
      const PlanPtr plan =
          MakePlan(Keys{{"method", method}, {"use_merge_dims", "false"}, {"max_preconditioner_dim", "8"}} + keys);
      AddParam(plan, Param("fits", {8, 5}));
      AddParam(plan, Param("w", {9, 5}));
      CHECK_INVALID(shampoo_plan_finish(plan.get()), "\"w\"", "(9, 5)", "2 blocks", "expected a single block",
                    keys[0].first, "max_preconditioner_dim to at least 9");
    }
  }
}

}  // namespace
}  // namespace shampoo_test

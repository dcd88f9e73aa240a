// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests of the warning that creating an optimizer logs if factor matrices will be rank-deficient when their first
// inverse roots are computed.
#include "tests/capi/behaviour/host.h"
#include "tests/capi/behaviour/listener.h"

namespace shampoo_test {
namespace {

// Returns the warning that creating an optimizer logs, or "" if it logs none. The optimizer has group 0 with `keys`,
// and group 1 with `keys` and `second`.
std::string WarningOf(const Keys& keys,
                      const std::vector<shampoo_param_desc>& params = {Param("w", {16, 4}), Param("b", {9})},
                      const Keys& second = {}) {
  const Keys whole = "use_merge_dims=false";
  Listener listener(1);
  const Host host(std::vector<Keys>{whole + keys, whole + keys + second}, params);
  std::string warning;
  for (const std::string& line : listener.Take()) {
    if (!Has(line, {"few gradients"})) continue;
    CHECK(warning.empty());
    warning = line;
  }
  return warning;
}

TEST_CASE("the warning counts the factor matrices that are rank-deficient at their first root, and names the worst") {
  // Each step raises the rank of w/0/factor.0 by at most 4, and the rank of b/0/factor.0 by at most 1. After two steps,
  // the ranks are at most 8 of 16 and 2 of 9. The worst matrix is the one whose rank is farthest below its size.
  const std::string after_two = WarningOf("precondition_frequency=2");
  CHECK_MESSAGE(
      Has(after_two, {"2 ", "2 of 3 factor matrices", "w/0/factor.0 of size 16 with a rank of at most 8 after 2 steps",
                      "epsilon of 1e-12 alone", "Set root_relative_epsilon"}),
      after_two);
  const std::string after_three = WarningOf("precondition_frequency=3 epsilon=0.5");
  CHECK_MESSAGE(Has(after_three, {"2 of 3", "b/0/factor.0 of size 9 with a rank of at most 3", "epsilon of 0.5 alone"}),
                after_three);
  const std::string relative = WarningOf("root_method=higher_order", {Param("b", {9})});
  CHECK_MESSAGE(
      Has(relative, {"1 of 1 factor matrix ", "after 1 step;", "epsilon of 1e-12 times a bound on its largest"}),
      relative);
}

TEST_CASE("the step of the first root depends on the group and, with root_spread=true, on the block") {
  std::vector<shampoo_param_desc> params = {Param("a", {16}), Param("b", {30})};
  params[1].group = 1;
  const std::string slower = WarningOf("precondition_frequency=5", params, "precondition_frequency=20");
  CHECK_MESSAGE(Has(slower, {"2 of 2", "a/0/factor.0 of size 16 with a rank of at most 5 after 5 steps"}), slower);
  const std::string late = WarningOf("precondition_frequency=5 start_preconditioning_step=12", params);
  CHECK_MESSAGE(Has(late, {"2 of 2", "b/0/factor.0 of size 30 with a rank of at most 12 after 12 steps"}), late);
  // The first root of the second block is computed at least one step later. Its factor matrix then has full rank.
  const Keys spread = "precondition_frequency=11 root_spread=true max_preconditioner_dim=12";
  const std::string first = WarningOf(spread, {Param("b", {24})});
  CHECK_MESSAGE(Has(first, {"of size 12 with a rank of at most 11 after 11 steps"}), first);
  CHECK_MESSAGE(Has(first, {"1 of 2"}), first);
}

TEST_CASE(
    "there is no warning if all factor matrices have full rank, with root_rank_handling=pseudo_inverse, or if "
    "root_relative_epsilon is set") {
  CHECK(WarningOf("precondition_frequency=9") == "");
  CHECK(WarningOf("precondition_frequency=8") != "");
  CHECK(WarningOf("root_rank_handling=pseudo_inverse epsilon=0") == "");
  CHECK(WarningOf("root_relative_epsilon=1e-5") == "");
}

}  // namespace
}  // namespace shampoo_test

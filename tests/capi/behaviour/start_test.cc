// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/behaviour/host.h"

namespace shampoo_test {
namespace {

const std::vector<shampoo_param_desc> kMatrix = {Param("w", {2, 2}, SHAMPOO_F64)};

TEST_CASE(
    "without grafting, initial_inverse selects whether steps before start_preconditioning_step move a parameter") {
  for (const char* const initial : {"identity", "zero"}) {
    Host host("use_merge_dims=false lr=0.5 beta1=0 precondition_frequency=3" + Keys{{"initial_inverse", initial}},
              kMatrix);
    host.tensors[0].w = ArrayOf(SHAMPOO_F64, {1, 2, 3, 4});
    host.tensors[0].g = ArrayOf(SHAMPOO_F64, {1, -2, 4, 8});
    host.Step();
    const bool identity = initial == std::string("identity");
    CHECK(host.tensors[0].w.Values() ==
          (identity ? std::vector<double>{0.5, 3, 1, 0} : std::vector<double>{1, 2, 3, 4}));
  }
}

TEST_CASE("the state named diagonal has the flag 1 only for factor matrices that were diagonal at every refresh") {
  Host host(Keys("use_merge_dims=false beta1=0 beta2=0.5 epsilon=0.5 use_bias_correction=false"), kMatrix);
  const auto step = [&](const std::vector<double>& gradient) {
    host.tensors[0].g = ArrayOf(SHAMPOO_F64, gradient);
    host.Step();
    return host.Read("w/0/diagonal").Values();
  };
  CHECK(step({1, 0, 0, 2}) == std::vector<double>{1, 1});
  CHECK(step({1, 1, 0, 2}) == std::vector<double>{0, 0});
  // The test makes the factor matrices diagonal again by writing states. The flags must stay 0 nevertheless.
  for (const char* key : {"w/0/factor.0", "w/0/factor.1"}) host.WriteValues(key, {1, 0, 0, 1});
  CHECK(step({0, 0, 0, 0}) == std::vector<double>{0, 0});
}

TEST_CASE("negative eigenvalues above -epsilon are shifted in dense factor matrices and not in diagonal ones") {
  // The test writes a diagonal factor matrix with the element -0.25, and its flag in w/0/diagonal. If this flag is 1,
  // the root of a diagonal element a is (a + epsilon)^(-1/4), because Host uses the preset shampoo_2024. If the flag is
  // 0, the library first adds 0.25 to all eigenvalues, so that the least eigenvalue is 0.
  for (const bool dense : {false, true}) {
    Host host(Keys("use_merge_dims=false beta1=0 epsilon=0.5 beta2=1"), kMatrix);
    host.WriteValues("w/0/factor.0", {-0.25, 0, 0, 1});
    host.WriteValues("w/0/diagonal", {dense ? 0.0 : 1.0, 1});
    host.Step();
    const Array inverse = host.Read("w/0/inverse.0");
    const double shift = dense ? 0.25 : 0;
    CHECK(inverse.Get(0) == doctest::Approx(std::pow(0.25 + shift, -0.25)).epsilon(1e-12));
    CHECK(inverse.Get(3) == doctest::Approx(std::pow(1.5 + shift, -0.25)).epsilon(1e-12));
  }
}

}  // namespace
}  // namespace shampoo_test

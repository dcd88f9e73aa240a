// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of the key soap_post, which orthogonalizes the directions of method soap.
#include <vector>

#include "tests/capi/behaviour/basis_host.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

// With these keys, the direction does not depend on the parameter.
const Keys kPlainSoap = "method=soap lr=1 precondition_frequency=2 shape_scale=none";
const Keys kPost = "soap_post=orthogonalize";
const Keys kOrders[] = {
    {}, "factor_correction=kl", "basis_order=before grafting=adam", "orthogonalization=exact first_step=use"};

TEST_CASE(
    "soap_post orthogonalizes the direction of soap as a matrix with one dim for outputs and one dim for inputs") {
  shampoo_param_desc kernel = Param("kernel", {2, 3, 4}, SHAMPOO_F64);
  kernel.fan = SHAMPOO_IN_OUT;
  const std::pair<shampoo_param_desc, int64_t> cases[] = {
      {Param("wide", {5, 7}, SHAMPOO_F64), 5}, {Param("convolution", {4, 3, 2}, SHAMPOO_F64), 4}, {kernel, 6}};
  for (const auto& [desc, rows] : cases) {
    for (const Keys& order : kOrders) {
      CAPTURE_ALL(desc.name, order);
      Host plain(kPlainSoap + order, {desc});
      Host post(kPlainSoap + order + kPost, {desc});
      const ConfigPtr config = MakeConfig(kPlainSoap + order + kPost);
      std::mt19937_64 random(5);
      for (int step = 1; step <= 5; ++step) {
        const std::vector<double> gradient = RandomElements(plain.tensors[0].g.size(), &random);
        std::vector<double> expected = DirectionOf(&plain, gradient);
        const std::vector<double> found = DirectionOf(&post, gradient);
        const bool is_grafted = order.Value("grafting") == "adam";
        if (!(is_grafted && step < 2) && NormOf(expected) > 0) {  // with grafting, step 1 uses the direction of adam
          const double length = NormOf(expected);
          RequireOk(shampoo_matrix_orthogonalize(config.get(), rows, static_cast<int64_t>(expected.size()) / rows,
                                                 SHAMPOO_F64, expected.data(), expected.data()));
          // Grafting determines the length of the direction, even after the orthogonalization.
          if (is_grafted) expected = Scaled(expected, length / NormOf(expected));
        }
        for (size_t i = 0; i < expected.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("soap_post has no effect on vectors and heads, and changes the default of shape_scale to muon") {
  shampoo_param_desc head = Param("head", {6, 4}, SHAMPOO_F64);
  head.role = SHAMPOO_HEAD;
  const std::vector<shampoo_param_desc> params = {head, Param("bias", {6}, SHAMPOO_F64)};
  Keys unset = kPlainSoap;
  std::erase_if(unset, [](const auto& key) { return key.first == "shape_scale"; });
  Host plain(kPlainSoap, params);
  Host post(unset + kPost, params);
  for (Host* const host : {&plain, &post}) {
    std::mt19937_64 random = host->FillFrom(6);
    for (int step = 1; step <= 3; ++step) host->RandomStep(random);
  }
  for (size_t p = 0; p < params.size(); ++p) CHECK(plain.tensors[p].w.bytes() == post.tensors[p].w.bytes());

  // The matrix has 4 times as many rows as columns, so shape_scale=muon doubles the direction.
  Host doubled(unset + kPost, {Param("w", {8, 2}, SHAMPOO_F64)});
  Host single(kPlainSoap + kPost, {Param("w", {8, 2}, SHAMPOO_F64)});
  std::mt19937_64 random(7);
  for (int step = 1; step <= 3; ++step) {
    const std::vector<double> gradient = RandomElements(16, &random);
    const std::vector<double> twice = DirectionOf(&doubled, gradient);
    const std::vector<double> once = DirectionOf(&single, gradient);
    for (size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == doctest::Approx(2 * once[i]).epsilon(1e-12));
  }
}

TEST_CASE("soap_post rejects tensors that are divided into blocks") {
  const PlanPtr plan = MakePlan(kPlainSoap + kPost + "max_preconditioner_dim=4");
  const shampoo_param_desc desc = Param("w", {6, 4});
  CHECK(shampoo_plan_add_param(plan.get(), &desc, nullptr) == SHAMPOO_OK);
  CHECK(shampoo_plan_finish(plan.get()) == SHAMPOO_E_INVALID);
  CheckLastError({"is divided into 2 blocks: expected a single block, because the group uses norms of "});
}

}  // namespace
}  // namespace shampoo_test

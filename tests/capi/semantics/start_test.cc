// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/capi/semantics/model.h"

namespace shampoo_test {
namespace {

TEST_CASE(
    "before the start step without grafting, initial_inverse identity moves by the gradient and zero does not move") {
  for (const bool identity : {true, false}) {
    Model<double> model({{"use_merge_dims", "false"},
                         {"lr", "0.5"},
                         {"beta1", "0"},
                         {"precondition_frequency", "3"},
                         {"initial_inverse", identity ? "identity" : "zero"}},
                        {Param("w", {2, 2})});
    model.w[0] = {1, 2, 3, 4};
    model.g[0] = {1, -2, 4, 8};
    model.Step();
    CHECK(model.w[0] == (identity ? std::vector<double>{0.5, 3, 1, 0} : std::vector<double>{1, 2, 3, 4}));
  }
}

TEST_CASE("a block without a gradient at the start step keeps its initial inverse until the next refresh") {
  Model<double> model(
      {{"use_merge_dims", "false"}, {"lr", "1"}, {"beta1", "0"}, {"precondition_frequency", "2"}, {"epsilon", "1e-3"}},
      {Param("a", {2, 2}), Param("b", {2, 2})});
  auto step = [&](bool with_b) {
    model.g[0] = model.g[1] = {1, 2, 3, -1};
    model.has_grad[1] = with_b;
    model.Step();
  };
  step(true);
  step(false);  // the start step: a is refreshed, b is not
  CHECK(model.Read<double>("b/0/inverse.0", 4) == std::vector<double>{1, 0, 0, 1});
  CHECK(model.Read<double>("a/0/inverse.0", 4) != std::vector<double>{1, 0, 0, 1});
  const std::vector<double> before = model.w[1];
  step(true);  // between refreshes: b still moves by its gradient
  for (size_t i = 0; i < 4; ++i) CHECK(model.w[1][i] == before[i] - model.g[1][i]);
  step(true);
  CHECK(model.Read<double>("b/0/inverse.0", 4) != std::vector<double>{1, 0, 0, 1});
}

TEST_CASE("a group whose parameters have no gradient is unchanged, including its step counter") {
  Model<double> model({{"use_merge_dims", "false"}, {"momentum", "0.9"}, {"weight_decay", "0.1"}}, {Param("w", {3})});
  model.w[0] = {1, 2, 3};
  model.g[0] = {1, 1, 1};
  model.Step();
  const std::vector<double> before = model.w[0];
  model.has_grad[0] = false;
  model.Step();
  CHECK(model.w[0] == before);
  CHECK(model.Read<int64_t>("group.0/step", 1)[0] == 1);
}

TEST_CASE("the diagonal shortcut needs a factor matrix that was diagonal at every refresh") {
  Model<double> model({{"use_merge_dims", "false"},
                       {"beta1", "0"},
                       {"beta2", "0.5"},
                       {"epsilon", "0.5"},
                       {"use_bias_correction", "false"}},
                      {Param("w", {2, 2})});
  auto step = [&](std::vector<double> gradient) {
    model.g[0] = std::move(gradient);
    model.Step();
    return model.Read<int32_t>("w/0/diagonal", 2);
  };
  CHECK(step({1, 0, 0, 2}) == std::vector<int32_t>{1, 1});
  CHECK(step({1, 1, 0, 2}) == std::vector<int32_t>{0, 0});
  // The factors become diagonal again only by state_write; the flag must stay.
  const std::vector<double> diagonal = {1, 0, 0, 1};
  for (const char* key : {"w/0/factor.0", "w/0/factor.1"}) {
    RequireOk(shampoo_state_write(model.optimizer, model.Entry(key), 0, 4, diagonal.data(), 32, SHAMPOO_CPU, nullptr));
  }
  CHECK(step({0, 0, 0, 0}) == std::vector<int32_t>{0, 0});
}

TEST_CASE("negative eigenvalues are shifted in dense factor matrices and not in diagonal ones") {
  // Writes a factor matrix with a slightly negative eigenvalue. Diagonal: (a + eps)^(-1/4). Dense: shifted first.
  for (const bool dense : {false, true}) {
    Model<double> model({{"use_merge_dims", "false"}, {"beta1", "0"}, {"epsilon", "0.5"}, {"beta2", "1"}},
                        {Param("w", {2, 2})});
    const std::vector<double> factor = {-0.25, 0, 0, 1};
    const std::vector<int32_t> flags = {dense ? 0 : 1, 1};
    RequireOk(shampoo_state_write(model.optimizer, model.Entry("w/0/factor.0"), 0, 4, factor.data(), 32, SHAMPOO_CPU,
                                  nullptr));
    RequireOk(
        shampoo_state_write(model.optimizer, model.Entry("w/0/diagonal"), 0, 2, flags.data(), 8, SHAMPOO_CPU, nullptr));
    model.g[0] = {0, 0, 0, 0};
    model.Step();
    const std::vector<double> inverse = model.Read<double>("w/0/inverse.0", 4);
    const double clamp = dense ? 0.25 : 0;
    CHECK(inverse[0] == doctest::Approx(std::pow(0.25 + clamp, -0.25)).epsilon(1e-12));
    CHECK(inverse[3] == doctest::Approx(std::pow(1.5 + clamp, -0.25)).epsilon(1e-12));
  }
}

TEST_CASE("an entry 0 in inverse_root_override selects the default root") {
  std::vector<std::vector<double>> results;
  for (const char* roots : {"0", "0,0,0", "4", "0,2,4", "2"}) {
    Model<double> model({{"use_merge_dims", "false"}, {"inverse_root_override", roots}, {"epsilon", "0.1"}},
                        {Param("w", {2, 2})});
    model.g[0] = {1, 2, 3, 4};
    model.Step();
    results.push_back(model.w[0]);
  }
  for (size_t i = 1; i < 4; ++i) CHECK(results[i] == results[0]);
  CHECK(results[4] != results[0]);
}

}  // namespace
}  // namespace shampoo_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of the keys that reproduce runs of a later release of the reference implementation: momentum_dampening,
// trace_scaling, row_sum_epsilon, count_empty_steps, and drop_weighting with method shampoo. The expected numbers are
// computed by hand.
#include <cmath>
#include <vector>

#include "tests/capi/behaviour/basis_host.h"

namespace shampoo_test {
namespace {

const Keys kMomentum = "method=sgd lr=1 momentum=0.5 momentum_dampening=0.25";
// Factor matrices are sums, because preset=shampoo_2024 sets beta2 to 1. With beta1=0, the filtered gradient is the
// gradient.
const Keys kSums = "preset=shampoo_2024 lr=1 beta1=0 initial_inverse=identity use_merge_dims=false";
// Like kSums, except that factor matrices are averages.
const Keys kAverages = kSums + "beta2=0.5";

// Makes one step, in which the gradient of the first parameter is the diagonal matrix diag(gradient). Returns the
// diagonal of the parameter.
std::vector<double> StepDiagonal(Host* host, const std::vector<double>& gradient) {
  Host::Tensors& tensor = host->tensors[0];
  tensor.g = ArrayOf(tensor.g.dtype(), DiagonalMatrix(gradient));
  host->Step();
  return DiagonalOf(tensor.w.Values(), gradient.size());
}

void CheckDiagonal(const std::vector<double>& values, const std::vector<double>& expected, double tolerance = 1e-9) {
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    CHECK(std::fabs(values[i] - expected[i]) <= tolerance * std::fabs(expected[i]));
  }
}

TEST_CASE("momentum_dampening scales the direction, including weight decay, before momentum is applied") {
  const std::vector<shampoo_param_desc> one = {Param("w", {1, 1}, SHAMPOO_F64)};
  Host plain(kMomentum, one);
  CHECK(StepDiagonal(&plain, {4}) == std::vector<double>{-3});    // M = 3
  CHECK(StepDiagonal(&plain, {4}) == std::vector<double>{-7.5});  // M = 1.5 + 3
  Host nesterov(kMomentum + "use_nesterov=true", one);
  CHECK(StepDiagonal(&nesterov, {4}) == std::vector<double>{-4.5});   // 3 + 0.5 * 3
  CHECK(StepDiagonal(&nesterov, {4}) == std::vector<double>{-9.75});  // 3 + 0.5 * 4.5
  Host decays(kMomentum + "weight_decay=0.5", one);
  CHECK(StepDiagonal(&decays, {4}) == std::vector<double>{-3});
  CHECK(StepDiagonal(&decays, {4}) == std::vector<double>{-6.375});  // M = 1.5 + 0.75 (4 - 1.5)
}

TEST_CASE("momentum_dampening is rejected without momentum") {
  CHECK(
      PlanError("momentum_dampening=0.25") ==
      "key momentum_dampening: the value 0.25 is not allowed with momentum=0, because there is no momentum to dampen: "
      "expected 0, or a momentum above 0");
}

TEST_CASE("trace_scaling divides a factor matrix by a power of its trace, or of epsilon if epsilon is larger") {
  const std::vector<shampoo_param_desc> matrix = {Param("w", {2, 2}, SHAMPOO_F64)};
  // Both factor matrices are diag(4, 1). Without trace_scaling and epsilon, a diagonal element g of the gradient gives
  // the direction g / sqrt(f), where f is the element of the factor matrices at the same position.
  for (const auto& [exponent, power] : {std::pair{"0.5", 0.5}, {"1", 1.0}, {"0", 0.0}}) {
    CAPTURE(exponent);
    const double root = std::pow(5.0, power / 2);
    Host host(kSums + Keys{{"trace_scaling", exponent}}, matrix);
    CheckDiagonal(StepDiagonal(&host, {2, 1}), {-root, -root});
    const double size = std::pow(100.0, power);
    Host large(kSums + Keys{{"trace_scaling", exponent}, {"epsilon", "100"}}, matrix);
    CheckDiagonal(StepDiagonal(&large, {2, 1}), {-2 / std::sqrt(4 / size + 100), -1 / std::sqrt(1 / size + 100)});
  }
}

TEST_CASE("trace_scaling uses the trace after bias correction, even if root_async computes roots from a snapshot") {
  const std::vector<shampoo_param_desc> matrix = {Param("w", {2, 2}, SHAMPOO_F64)};
  Host host(kAverages + "trace_scaling=1", matrix);
  CheckDiagonal(StepDiagonal(&host, {2, 1}), {-std::sqrt(5.0), -std::sqrt(5.0)});
  // With root_async=1, the roots of step 4 are used from step 5 on.
  const Keys keys = kAverages + "trace_scaling=1 precondition_frequency=2";
  Host async(keys + "root_async=1", matrix);
  Host now(keys, matrix);
  for (int step = 1; step <= 4; ++step) {
    StepDiagonal(&async, {2.0 * step, 1});
    StepDiagonal(&now, {2.0 * step, 1});
  }
  CHECK(!(async.Read("w/0/inverse.0") == now.Read("w/0/inverse.0")));
  StepDiagonal(&async, {1, 3});
  CHECK(async.Read("w/0/inverse.0") == now.Read("w/0/inverse.0"));
}

TEST_CASE(
    "trace_scaling divides a float32 factor matrix by its trace, even if the trace exceeds the largest float32 "
    "number") {
  Host host(kSums + "trace_scaling=1", {Param("w", {4, 4}, SHAMPOO_F32)});
  const double g = 1.4e19 / 4;
  host.tensors[0].g = ArrayOf(SHAMPOO_F32, {3 * g, g, 0, 0, g, 3 * g, 0, 0, 0, 0, 3 * g, g, 0, 0, g, 3 * g});
  host.Step();
  // The gradient G is symmetric and positive definite. The direction is G (G^2 / trace)^(-1/2), where `trace` is the
  // trace of G^2, so the direction is sqrt(trace) times the identity.
  const double root = std::sqrt(40.0) * g;  // the trace is root * root, 4.9e38
  for (size_t i = 0; i < 16; ++i) {
    CAPTURE(i);
    CHECK(std::fabs(host.tensors[0].w.Get(i) + (i % 5 == 0 ? root : 0)) <= 1e-5 * root);
  }
}

TEST_CASE("with row_sum_epsilon, the epsilon of root_method=higher_order is relative to the largest row sum") {
  const ConfigPtr config = MakeConfig("root_method=higher_order root_tolerance=1e-14 epsilon=1 row_sum_epsilon=true");
  const double a[] = {2, 1, 1, 1};
  double x[4] = {};
  shampoo_root_info info = SHAMPOO_ROOT_INFO_INIT;
  RequireOk(shampoo_matrix_inverse_root(config.get(), 2, SHAMPOO_F64, a, x, 1, 1, &info));
  // The result is the inverse of A + 3 I, because 3 is the largest row sum of A.
  const double expected[] = {4.0 / 19, -1.0 / 19, -1.0 / 19, 5.0 / 19};
  for (size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(std::fabs(x[i] - expected[i]) <= 1e-13);
  }
}

TEST_CASE(
    "with drop_weighting, factor matrices and grafting states add new terms with weight 1 and are not bias-corrected") {
  const std::vector<shampoo_param_desc> matrix = {Param("w", {2, 2}, SHAMPOO_F64)};
  const Keys keys = kAverages + "drop_weighting=true";
  Host host(keys, matrix);
  CheckDiagonal(StepDiagonal(&host, {2, 1}), {-1, -1});
  const double second = 1 + 1 / std::sqrt(1.5);
  CheckDiagonal(StepDiagonal(&host, {2, 1}), {-second, -second});
  CHECK(host.Read("w/0/factor.0").Get(0) == 6);  // 0.5 * 4 + 4
  // Adam's direction is used before start_preconditioning_step.
  Host grafted(keys + "grafting=adam grafting_beta2=0.5 start_preconditioning_step=9", matrix);
  CheckDiagonal(StepDiagonal(&grafted, {2, 1}), {-1, -1}, 1e-7);
  CheckDiagonal(StepDiagonal(&grafted, {2, 1}), {-second, -second}, 1e-7);
}

TEST_CASE(
    "with count_empty_steps=true, the step counter of a group includes steps in which no parameter has a gradient") {
  const Keys keys = kAverages + "precondition_frequency=2";
  const std::vector<shampoo_param_desc> matrix = {Param("w", {2, 2}, SHAMPOO_F64)};
  Host counts(keys + "count_empty_steps=true", matrix);
  Host skips(keys, matrix);
  for (Host* const host : {&counts, &skips}) {
    host->tensors[0].has_grad = false;
    host->Step();
    host->tensors[0].has_grad = true;
    CHECK(host->tensors[0].w.Get(0) == 0);
  }
  CHECK(counts.Steps(0) == 1);
  CHECK(skips.Steps(0) == 0);
  // The first refresh is in step 2, which only `counts` reaches. After bias correction, the first element of the factor
  // matrices of `counts` is 0.5 * 4 / (1 - 0.5^2).
  CheckDiagonal(StepDiagonal(&counts, {2, 1}), {-2 / std::sqrt(8.0 / 3), -1 / std::sqrt(2.0 / 3)});
  CheckDiagonal(StepDiagonal(&skips, {2, 1}), {-2, -1});
  CHECK(counts.Steps(0) == 2);
  CHECK(skips.Steps(0) == 1);
}

}  // namespace
}  // namespace shampoo_test

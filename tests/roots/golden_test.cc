// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests residuals and inverse roots with the recorded data in tests/golden. Each of the methods eigen, newton and
// higher_order computes every recorded root that it supports, even if the root was recorded with another method.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/roots/inverse_root.h"
#include "core/roots/residual.h"
#include "tests/core/blas_fixture.h"
#include "tests/golden/safetensors.h"
#include "tests/roots/high_precision.h"

namespace shampoo::roots_test {
namespace {

struct Case {
  std::string name;
  golden::TensorFile file;
  nlohmann::json settings;
};

std::vector<Case> Cases(const char* suite) {
  std::vector<Case> cases;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(SHAMPOO_GOLDEN_DIR) / suite)) {
    if (entry.path().extension() != ".safetensors") continue;
    Case one{entry.path().stem().string(), golden::ReadSafetensors(entry.path()), {}};
    one.settings = nlohmann::json::parse(one.file.metadata.at("case"));
    cases.push_back(std::move(one));
  }
  std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  return cases;
}

TEST_CASE("computed residuals equal the recorded residuals") {
  const std::vector<Case> cases = Cases("residuals");
  CHECK(cases.size() == 18);
  const BlasFixture blas;
  for (const Case& one : cases) {
    CAPTURE(one.name);
    const golden::Tensor& a = one.file.At("A");
    const int64_t n = a.shape[0];
    RootSpec spec;
    spec.epsilon = one.settings.at("epsilon");
    spec.exponent = -one.settings.at("exponent_multiplier").get<double>() /
                    static_cast<double>(one.settings.at("root_numerator").get<int64_t>());
    RootOutcome outcome;
    outcome.epsilon = outcome.shift = spec.epsilon;
    std::vector<double> memory(static_cast<size_t>(RootWorkspace<double>::Elements(RootMethod::kEigen, n)));
    std::vector<int32_t> ints(static_cast<size_t>(RootWorkspace<double>::Ints(n)));
    const SymmetricView<double> matrix{n, a.As<double>("F64")};
    const RootResiduals measured =
        MeasureRoot(spec, outcome, matrix, SymmetricView<double>{n, one.file.At("X_hat").As<double>("F64")},
                    {memory.data(), ints.data()});
    const double* const recorded = one.file.At("residuals").As<double>("F64");
    const double rtol = one.settings.at("rtol");
    CHECK(measured.error == doctest::Approx(recorded[0]).epsilon(rtol));
    CHECK(measured.residual == doctest::Approx(recorded[1]).epsilon(rtol));
  }
}

// Checks that a root is as accurate as docs/roots.md states, or that the status, outcome.converged or the residual
// reports the error. Increments *accurate or *reported, unless the method does not support the exponent.
template <typename Real>
void Check(const Case& one, RootMethod method, int64_t* accurate, int64_t* reported) {
  const golden::Tensor& tensor = one.file.At("A");
  const int64_t n = tensor.shape[0];
  const Real* const a = reinterpret_cast<const Real*>(tensor.bytes.data());
  const auto numerator = one.settings.at("root_numerator").get<int64_t>();
  const auto denominator = one.settings.at("root_denominator").get<int64_t>();
  if (method == RootMethod::kNewton && numerator % denominator != 0) return;
  Settings settings;
  settings.root_method = method;
  settings.epsilon = one.settings.at("epsilon");
  settings.exponent_multiplier =
      method == RootMethod::kEigen ? one.settings.at("exponent_multiplier").get<double>() : 1;
  settings.root_tolerance = 1e-6;
  settings.root_max_iterations = 100;
  settings.root_order = 3;
  settings.root_rank_rtol = -1;
  std::vector<Real> x(static_cast<size_t>(n * n));
  RootResult result;
  const Status status = InverseRoot(settings, numerator, denominator, n, a, x.data(), &result);
  if (!status.ok()) {
    CHECK(status.code() == Code::kNumeric);
    ++*reported;
    return;
  }
  const Wide shift = static_cast<Wide>(result.outcome.shift);
  const Wide exponent =
      -static_cast<Wide>(settings.exponent_multiplier) * static_cast<Wide>(denominator) / static_cast<Wide>(numerator);
  const Eigen eigen = JacobiEigen(n, Matrix(a, a + n * n));
  const auto [least, largest] = std::ranges::minmax(eigen.values);
  const Wide lowest = least + shift;
  const Wide highest = std::max(largest + shift, Wide{0});
  const Matrix exact = Apply(n, eigen, [&](Wide value) { return std::pow(value + shift, exponent); });
  const double error = RelativeError(Matrix(x.begin(), x.end()), exact);
  const double unit = std::numeric_limits<Real>::epsilon() / 2.0;
  const double condition = static_cast<double>(highest / lowest);
  const double allowed = 10 * std::sqrt(static_cast<double>(n)) * unit * condition + 1e-5;
  if (lowest > 0 && error <= allowed) {
    ++*accurate;
    return;
  }
  CAPTURE(error);
  CAPTURE(condition);
  CHECK((result.outcome.converged != 1 || error <= 2 * result.residual));
  ++*reported;
}

TEST_CASE("eigen, newton and higher_order are accurate on every recorded matrix, or report that they are not") {
  const std::vector<Case> cases = Cases("matrix_root");
  CHECK(cases.size() == 420);
  for (const RootMethod method : {RootMethod::kEigen, RootMethod::kNewton, RootMethod::kHigherOrder}) {
    CAPTURE(static_cast<int>(method));
    int64_t accurate = 0;
    int64_t reported = 0;
    for (const Case& one : cases) {
      CAPTURE(one.name);
      if (one.file.At("A").dtype == "F64") {
        Check<double>(one, method, &accurate, &reported);
      } else {
        Check<float>(one, method, &accurate, &reported);
      }
    }
    MESSAGE("method " << static_cast<int>(method) << ": " << accurate << " accurate, " << reported << " reported");
    CHECK(accurate > 15 * reported);
  }
}

}  // namespace
}  // namespace shampoo::roots_test

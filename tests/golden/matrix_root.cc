// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <shampoo/shampoo.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <stdexcept>
#include <string>

#include "tests/golden/case_config.h"
#include "tests/golden/suites.h"

namespace shampoo::golden {

namespace {

struct Root {
  int32_t numerator;
  int32_t denominator;
};

// Parses "4" or "4/3".
Root ParseRoot(const std::string& text) {
  const size_t slash = text.find('/');
  return {std::stoi(text), slash == std::string::npos ? 1 : std::stoi(text.substr(slash + 1))};
}

// Computes A <- A + max(relative * ||A||, absolute) I, where ||A|| is the largest absolute row sum. This is the
// regularization of the release from which the suite matrix_root_extra was recorded (tests/golden/README.md).
// libshampoo regularizes differently, so this tool shifts A itself and sets the key epsilon to 0.
template <typename Real>
void Shift(double relative, double absolute, Tensor* a) {
  auto* const data = reinterpret_cast<Real*>(a->bytes.data());
  const auto n = static_cast<size_t>(a->shape[0]);
  double norm = 0;
  for (size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (size_t j = 0; j < n; ++j) sum += std::fabs(static_cast<double>(data[i * n + j]));
    norm = std::max(norm, sum);
  }
  for (size_t i = 0; i < n; ++i) data[i * n + i] += static_cast<Real>(std::max(relative * norm, absolute));
}

TensorFile ReplayRoot(const Case& recorded, const Config& config, const Tensor& a, Root root, bool informative) {
  const nlohmann::json& settings = recorded.settings;
  if (a.shape.size() != 2 || a.shape[0] != a.shape[1]) throw std::runtime_error("A is not a square matrix");
  if (a.dtype != DtypeOfParameters(settings.at("dtype").get<std::string>())) {
    throw std::runtime_error("A has the dtype " + a.dtype + ", but the case has another dtype");
  }
  Tensor x{a.dtype, a.shape, std::vector<std::byte>(a.bytes.size())};
  shampoo_root_info info = SHAMPOO_ROOT_INFO_INIT;
  TensorFile result;
  try {
    Check(shampoo_matrix_inverse_root(config.Get(), a.shape[0], DtypeCode(a.dtype), a.bytes.data(), x.bytes.data(),
                                      root.numerator, root.denominator, &info),
          "shampoo_matrix_inverse_root");
  } catch (const std::exception& error) {
    if (!informative) throw;
    // An informative case only records what the reference implementation returned. The library may reject the matrix.
    std::cout << recorded.path.filename().string() << ": no X (informative case): " << error.what() << "\n";
    return result;
  }
  result.tensors.emplace("X", std::move(x));
  return result;
}

}  // namespace

TensorFile ReplayMatrixRoot(const Case& recorded, const ReplayOptions& options) {
  const nlohmann::json& settings = recorded.settings;
  const auto method = settings.at("method").get<std::string>();
  Config config;
  // The library has no method for diagonal matrices: root_method=eigen detects such matrices and uses a shortcut.
  config.Set("root_method", method == "diagonal" ? "eigen" : method);
  config.Set("epsilon", settings.at("epsilon"));
  config.Set("exponent_multiplier", settings.at("exponent_multiplier"));
  config.Set("threads", options.threads);
  if (method == "newton" || method == "higher_order") {
    config.Set("root_tolerance", settings.at("tolerance"));
    config.Set("root_max_iterations", settings.at("max_iterations"));
  }
  if (method == "higher_order") config.Set("root_order", settings.at("order"));
  const Root root{settings.at("root_numerator").get<int32_t>(), settings.at("root_denominator").get<int32_t>()};
  return ReplayRoot(recorded, config, recorded.data.At("A"), root, settings.at("informative").get<bool>());
}

TensorFile ReplayMatrixRootExtra(const Case& recorded, const ReplayOptions& options) {
  const nlohmann::json& settings = recorded.settings;
  const auto method = settings.at("method").get<std::string>();
  Tensor a = recorded.data.At("A");
  Config config;
  config.Set("threads", options.threads);
  config.Set("epsilon", 0);
  if (method == "pseudo_inverse") {
    config.Set("root_rank_handling", "pseudo_inverse");
    config.Set("root_rank_rtol", settings.at("rank_rtol"));
    config.Set("root_rank_atol", settings.at("rank_atol"));
    config.Set("exponent_multiplier", settings.at("exponent"));
    return ReplayRoot(recorded, config, a, {1, 1}, false);
  }
  if (method != "higher_order") throw std::runtime_error("method " + method + ": this tool does not replay it");
  config.Set("root_method", method);
  config.Set("root_tolerance", settings.at("tolerance"));
  config.Set("root_max_iterations", settings.at("max_iterations"));
  config.Set("root_order", settings.at("order"));
  const double relative = settings.at("rel_epsilon").get<double>();
  const double absolute = settings.at("abs_epsilon").get<double>();
  a.dtype == "F64" ? Shift<double>(relative, absolute, &a) : Shift<float>(relative, absolute, &a);
  return ReplayRoot(recorded, config, a, ParseRoot(settings.at("root").get<std::string>()), false);
}

TensorFile ReplayOrthogonalize(const Case& recorded, const ReplayOptions& options) {
  Config config;
  config.Set("method", "muon");
  config.Set("threads", options.threads);
  for (const auto& [key, value] : recorded.settings.at("keys").items()) config.Set(key.c_str(), value);
  const Tensor& a = recorded.data.At("A");
  if (a.shape.size() != 2) throw std::runtime_error("A is not a matrix");
  Tensor x{a.dtype, a.shape, std::vector<std::byte>(a.bytes.size())};
  Check(shampoo_matrix_orthogonalize(config.Get(), a.shape[0], a.shape[1], DtypeCode(a.dtype), a.bytes.data(),
                                     x.bytes.data()),
        "shampoo_matrix_orthogonalize");
  TensorFile result;
  result.tensors.emplace("X", std::move(x));
  return result;
}

}  // namespace shampoo::golden

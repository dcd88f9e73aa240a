// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace shampoo_test {

// A step after which the parameter or the momentum would not be finite, although the gradient is finite and not large.
struct OverflowCase {
  std::string what;
  std::vector<std::pair<std::string, std::string>> keys;
  double param;  // each element of the parameter before the step
  bool has_momentum = false;
  double momentum = 0;  // each element of the momentum before the step, if has_momentum
};

// Returns the cases for parameters of a dtype whose largest finite number is `limit`. A test of these cases uses
// the learning rate 1 and gradients with elements of about 1.
inline std::vector<OverflowCase> OverflowCases(double limit) {
  const auto text = [](double value) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.17g", value);
    return std::string(digits);
  };
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<OverflowCase> cases = {
      {"decay of a large parameter", {{"weight_decay", "100"}}, 0.03 * limit},
      {"a large decay", {{"weight_decay", text(0.3 * limit)}}, 10},
      {"decay of a parameter near the limit", {{"weight_decay", "2.5"}}, 0.7 * limit},
      {"decay of an infinite parameter", {{"weight_decay", "0.1"}}, infinity},
      {"decay of a parameter that is NaN", {{"weight_decay", "0.1"}}, nan},
  };
  for (const char* nesterov : {"false", "true"}) {
    const std::vector<std::pair<std::string, std::string>> momentum = {{"momentum", "0.9"}, {"use_nesterov", nesterov}};
    const auto add = [&](const char* what, const char* decay, double param, double state) {
      auto keys = momentum;
      keys.emplace_back("weight_decay", decay);
      cases.push_back({std::string(what) + ", use_nesterov=" + nesterov, keys, param, true, state});
    };
    add("momentum with decay of a large parameter", "100", 0.03 * limit, 1);
    add("a large momentum", "0", -0.9 * limit, 0.9 * limit);
    add("a large momentum that is negative", "0", 0.9 * limit, -0.9 * limit);
    add("decay that overflows before the momentum is added", "2", 0.9 * limit, -0.99 * limit);
    add("NaN in the momentum", "0", 1, nan);
    add("infinity in the momentum", "0", 1, infinity);
    add("negative infinity in the momentum", "0", 1, -infinity);
  }
  return cases;
}

}  // namespace shampoo_test

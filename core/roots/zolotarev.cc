// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/zolotarev.h"

#include <cmath>
#include <numbers>

namespace shampoo {
namespace {

double ArithmeticGeometricMean(double a, double b) {
  while (std::fabs(a - b) > 1e-15 * a) {
    const double mean = (a + b) / 2;
    b = std::sqrt(a * b);
    a = mean;
  }
  return a;
}

struct Elliptic {
  double sn, cn, dn;
};

// Returns Jacobi's elliptic functions of u for the complementary parameter mc = 1 - m. Source: Abramowitz and Stegun,
// Handbook of Mathematical Functions (1964), section 16.4.
Elliptic JacobiElliptic(double u, double mc) {
  constexpr int kMaxSteps = 16;
  std::array<double, kMaxSteps> ratio{};  // c / a
  double a = 1;
  double b = std::sqrt(mc);
  double c = std::sqrt(1 - mc);
  int steps = 0;
  while (steps + 1 < kMaxSteps && std::fabs(c) > 1e-17 * a) {
    const double mean = (a + b) / 2;
    c = (a - b) / 2;
    b = std::sqrt(a * b);
    a = mean;
    ratio[static_cast<size_t>(++steps)] = c / a;
  }
  double phi = std::ldexp(a * u, steps);
  for (int i = steps; i > 0; --i) phi = (phi + std::asin(ratio[static_cast<size_t>(i)] * std::sin(phi))) / 2;
  const double sn = std::sin(phi);
  const double cn = std::cos(phi);
  return {sn, cn, std::sqrt(cn * cn + mc * sn * sn)};
}

// Returns the sum of weights[j] / (x + poles[j]) that approximates x^(-1/2) for 1 <= x <= 2^q. x^(-1/2) is 2 / pi times
// the integral of dt / (t^2 + x) over t >= 0. The sum is the midpoint rule for this integral after the substitution
// t = sn(u) / cn(u) with 0 <= u <= K', where K' is the variable half_period. The rule converges exponentially, because
// the integrand is periodic in u. The rate of convergence depends on K / K', where K is the complete elliptic integral
// of the first kind with modulus k = 2^(-q / 2).
ZolotarevSum MakeSum(int q) {
  const double inverse_condition = std::ldexp(1.0, -q);  // k^2
  const double k = std::sqrt(inverse_condition);
  const double half_period = std::numbers::pi / 2 / ArithmeticGeometricMean(1, k);                             // K'
  const double quarter = std::numbers::pi / 2 / ArithmeticGeometricMean(1, std::sqrt(1 - inverse_condition));  // K
  const double error_exponent =
      2 * std::numbers::pi * quarter / half_period;  // one more pole multiplies the error by exp(-error_exponent)
  ZolotarevSum sum;
  sum.count = static_cast<int>(std::ceil(std::log(4 / ZolotarevSum::kError) / error_exponent));
  const double width = half_period / sum.count;
  for (int j = 0; j < sum.count; ++j) {
    const Elliptic at = JacobiElliptic((j + 0.5) * width, inverse_condition);
    const double tangent = at.sn / at.cn;
    sum.poles[static_cast<size_t>(j)] = tangent * tangent;
    sum.weights[static_cast<size_t>(j)] = 2 / std::numbers::pi * width * at.dn / (at.cn * at.cn);
  }
  return sum;
}

std::array<ZolotarevSum, ZolotarevSum::kLargestCondition + 1> MakeSums() {
  std::array<ZolotarevSum, ZolotarevSum::kLargestCondition + 1> sums;
  for (int q = 1; q <= ZolotarevSum::kLargestCondition; ++q) sums[static_cast<size_t>(q)] = MakeSum(q);
  return sums;
}

}  // namespace

const ZolotarevSum& ZolotarevSum::ForCondition(int q) {
  static const std::array<ZolotarevSum, kLargestCondition + 1> sums = MakeSums();
  return sums[static_cast<size_t>(q)];
}

}  // namespace shampoo

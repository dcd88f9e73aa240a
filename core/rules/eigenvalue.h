// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/base/host_device.h"
#include "core/rules/root_spec.h"

// The rules by which a matrix is scaled, its eigenvalues become those of a root, and a result is accepted.
namespace shampoo {

// Of |A X^p - I|: above it a result is no root (release of the paper, for its higher-order method).
inline constexpr double kLargestResidual = 0.1;

// Returns what is added to the eigenvalues of a matrix with this mean eigenvalue.
SHAMPOO_HD inline double ResolvedEpsilon(const RootSpec& spec, double mean_eigenvalue) {
  return spec.relative_epsilon > 0 ? spec.relative_epsilon * std::fmax(mean_eigenvalue, 0) : spec.epsilon;
}

// Whether a factor matrix with this largest magnitude, before the division by its correction, counts as zeros. No
// element is a normal number of its dtype. A decaying factor matrix ends in such numbers, which rounding keeps from
// reaching 0, and no digit of which is right.
constexpr bool IsNegligible(double magnitude, Dtype dtype) { return magnitude < SmallestNormal(dtype); }

// Returns the k for which A * 2^-k is of order one. A power of two, so that nothing is rounded. `shift`, which will be
// added to the diagonal, may be much larger, but must stay within float64.
SHAMPOO_HD inline int ScaleExponent(double largest, double shift) {
  constexpr int kMost = 900;
  const int of_shift = shift > 0 ? std::ilogb(shift) + 1 : -2000;
  const int of_matrix = largest > 0 ? std::ilogb(largest) + 1 : of_shift;
  const int k = of_matrix > of_shift - kMost ? of_matrix : of_shift - kMost;
  return k > -2000 ? k : 0;
}

// Returns the largest k <= scale for which a root with this exponent scales by a power of two, too, if 1 / exponent is
// whole. Matrices that differ by such a factor alone then get roots of the same digits.
SHAMPOO_HD inline int WholeRootScale(int scale, double exponent) {
  const double root = std::fabs(1 / exponent);
  if (!(root >= 1 && root <= 64 && root == std::floor(root))) return scale;
  const int step = static_cast<int>(root);
  const int above = scale % step;
  return scale - (above < 0 ? above + step : above);
}

// Returns by which scale the method of the spec, with its epsilon resolved, sees a matrix whose largest element has
// this magnitude: it works on A * 2^-scale.
SHAMPOO_HD inline int RootScale(const RootSpec& spec, double largest) {
  const bool is_relative = spec.relative_epsilon > 0;
  double shift = spec.epsilon;
  if (spec.method != RootMethod::kEigen) {
    if (spec.method == RootMethod::kHigherOrder && !is_relative) shift = 1e-16;
    largest = std::fmax(largest, shift);
  }
  const int scale = ScaleExponent(largest, shift);
  return is_relative ? WholeRootScale(scale, spec.exponent) : scale;
}

// Returns the factor between the root of A and that of A * 2^-scale.
SHAMPOO_HD inline double RootFactor(int scale, double exponent) {
  return std::exp2(static_cast<double>(scale) * exponent);
}

// Scales elements of a matrix by 2^-k / divisor, each divided and rounded once to the dtype that roots are computed in.
template <typename Root>
class ElementScaling {
 public:
  // In float64 neither factor can leave the range where the product is in it: k is at most 1024, and at least -1074.
  SHAMPOO_HD ElementScaling(int k, double divisor)
      : half_(std::ldexp(1.0, -k / 2)), rest_(std::ldexp(1.0, -(k - k / 2))), divisor_(static_cast<Root>(divisor)) {}

  template <typename Real>
  SHAMPOO_HD Root operator()(Real value) const {
    return static_cast<Root>(static_cast<double>(value) * half_ * rest_) / divisor_;
  }

 private:
  double half_;
  double rest_;
  Root divisor_;
};

// The rules by which an eigenvalue becomes one of the root, for a matrix that is scaled by 2^-scale: in float64 what is
// denormal has lost its digits before anything is added to it.
class RootOfEigenvalue {
 public:
  // epsilon: of the matrix itself. least and largest: eigenvalues of the scaled matrix. smallest: what is at or below
  // it has no root.
  SHAMPOO_HD RootOfEigenvalue(const RootSpec& spec, double epsilon, double exponent, int scale, double least,
                              double largest, double smallest)
      : pseudo_inverse_(spec.pseudo_inverse),
        exponent_(exponent),
        least_(spec.clamp && !(least > 0) ? least : 0.0),
        epsilon_(std::ldexp(epsilon, -scale)),
        smallest_(smallest),
        cutoff_(std::fmax(spec.rank_rtol * std::fmax(largest, 0.0), std::ldexp(spec.rank_atol, -scale))),
        scale_(scale),
        is_scaled_(spec.relative_epsilon > 0),
        unscale_(std::exp2(static_cast<double>(scale) * exponent / 2)) {}

  // NaN: there is no such root. With a relative epsilon that of the scaled matrix, so that the scale has no influence.
  SHAMPOO_HD double operator()(double l) const {
    if (pseudo_inverse_ && !(l > cutoff_)) return 0;
    // In this order: next to a large negative eigenvalue epsilon would be lost.
    const double shifted = pseudo_inverse_ ? l : (l - least_) + epsilon_;
    if (!(shifted > smallest_ || exponent_ >= 0)) return std::numeric_limits<double>::quiet_NaN();
    if (is_scaled_) return std::pow(shifted, exponent_);
    const double original = std::ldexp(shifted, scale_);
    const double magnitude = std::fabs(original);
    if (magnitude >= DBL_MIN && magnitude <= DBL_MAX) return std::pow(original, exponent_);
    // In two factors, because one may be out of range where the root is not.
    return std::pow(shifted, exponent_) * unscale_ * unscale_;
  }

 private:
  bool pseudo_inverse_;
  double exponent_;
  double least_;
  double epsilon_;
  double smallest_;
  double cutoff_;
  int scale_;
  bool is_scaled_;
  double unscale_;
};

// Signs that look random, the same on every call and on every backend: the probe vector of a result.
class ProbeSigns {
 public:
  // Returns the next sign, 1 or -1; the first one is that of element 0.
  constexpr double Next() {
    state_ = state_ * kMultiplier + kIncrement;
    return Sign();
  }

  // Returns the sign of element i. Steps of the recurrence are composed by squaring.
  static constexpr double At(int64_t i) {
    ProbeSigns signs;
    uint64_t multiplier = kMultiplier;
    uint64_t increment = kIncrement;
    for (uint64_t steps = static_cast<uint64_t>(i) + 1; steps != 0; steps >>= 1) {
      if ((steps & 1) != 0) signs.state_ = signs.state_ * multiplier + increment;
      increment *= multiplier + 1;
      multiplier *= multiplier;
    }
    return signs.Sign();
  }

 private:
  static constexpr uint64_t kMultiplier = 6364136223846793005u;
  static constexpr uint64_t kIncrement = 1442695040888963407u;
  constexpr double Sign() const { return (state_ >> 63) != 0 ? 1.0 : -1.0; }

  uint64_t state_ = 0x9e3779b97f4a7c15u;
};

// Returns how far, relative to |v|, rounding may take Q^T Q v from v in a dtype with this machine epsilon. No correct
// solver came near it on 20,000 difficult matrices (tests/roots/random_roots.cc).
SHAMPOO_HD inline double ProbeTolerance(int64_t n, double machine_epsilon) {
  return 30 * std::sqrt(static_cast<double>(n)) * machine_epsilon;
}

// Whether an eigendecomposition Q^T diag(l) Q of A in the root dtype passes its probe v, both of these to rounding:
// lost = |Q^T Q v - v| / |v| and error = |Q^T diag(l) Q v - A v| / |v|. largest: the largest |l|.
SHAMPOO_HD inline bool PassesProbe(int64_t n, Dtype root_dtype, double lost, double error, double largest) {
  const double tolerance = ProbeTolerance(n, MachineEpsilon(root_dtype));
  // Of order one by scaling, or all below it. What is smaller than the smallest normal number may be lost.
  return lost <= tolerance && error <= tolerance * largest + SmallestNormal(root_dtype);
}

}  // namespace shampoo

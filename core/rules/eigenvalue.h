// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/base/host_device.h"
#include "core/config/settings.h"
#include "core/rules/root_spec.h"

// How a matrix is scaled, how its eigenvalues become eigenvalues of the root, and when a result is accepted.
namespace shampoo {

// The largest residual at which the result X = B^(-1/p) of a coupled iteration counts as a root (B and p: see
// coupled_scalars.h). The residual is max |B X^p - I| with method higher_order, and RootResidual() with method newton.
// The reference implementation uses this limit for its higher-order method.
inline constexpr double kLargestResidual = 0.1;

// Returns the epsilon that is added to the eigenvalues of a matrix with this mean eigenvalue.
SHAMPOO_HD inline double ResolvedEpsilon(const RootSpec& spec, double mean_eigenvalue) {
  return spec.relative_epsilon > 0 ? spec.relative_epsilon * std::fmax(mean_eigenvalue, 0) : spec.epsilon;
}

// Returns the number by which the key trace_scaling divides a matrix with this trace before the root of the matrix is
// computed: max(trace, epsilon)^trace_scaling. The trace may be infinite. Call this before the epsilon of the spec is
// resolved (ResolvedEpsilon).
SHAMPOO_HD inline double TraceDivisor(const RootSpec& spec, double trace) {
  if (spec.trace_scaling == 0) return 1;
  // The limits ensure that the product of the result and a bias correction is a normal number.
  const double size = std::fmin(std::fmax(std::fmax(trace, spec.epsilon), 1e-290), DBL_MAX);
  // A device may round the result of pow up, even to infinity.
  return spec.trace_scaling == 1 ? size : std::fmin(std::pow(size, spec.trace_scaling), DBL_MAX);
}

// Returns whether a factor matrix counts as a zero matrix because none of its elements is a normal number of its dtype.
// While all gradients are zero, the elements of a factor matrix decay until they are subnormal. Rounding then keeps
// them from reaching 0, and none of their digits is correct. magnitude: the largest magnitude of an element, before the
// division by the bias correction. Methods that work in eigenbases (see basis.h) also apply the rule to means of
// squares and of eigenvalues.
constexpr bool IsNegligible(double magnitude, Dtype dtype) { return magnitude < SmallestNormal(dtype); }

// Returns the magnitude, relative to the largest eigenvalue, below which an eigenvalue of an n x n matrix of this dtype
// is 0 up to rounding.
constexpr double ZeroEigenvalueTolerance(int64_t n, Dtype dtype) {
  return 8 * static_cast<double>(n) * MachineEpsilon(dtype);
}

// Returns a k for which the largest element of A * 2^-k is between 1/2 and 1, where A is a matrix whose largest element
// is `largest` in magnitude. Scaling by a power of two rounds nothing. `shift` is a number that will be added to the
// diagonal of A. If `shift` is much larger than `largest`, k is chosen so that shift * 2^-k is at most
// 2^kMaxShiftExponent, which is finite in float64.
SHAMPOO_HD inline int ScaleExponent(double largest, double shift) {
  constexpr int kMaxShiftExponent = 900;
  const int of_shift = shift > 0 ? std::ilogb(shift) + 1 : -2000;
  const int of_matrix = largest > 0 ? std::ilogb(largest) + 1 : of_shift;
  const int k = of_matrix > of_shift - kMaxShiftExponent ? of_matrix : of_shift - kMaxShiftExponent;
  return k > -2000 ? k : 0;
}

// If 1 / exponent is an integer of at most 64 in magnitude, returns the largest k <= scale for which the root of A *
// 2^-k is the root of A times a power of two. The root of a matrix A is A^exponent. With this k, the roots of A and of
// c A have the same digits for each power c of 2^(1 / exponent). If 1 / exponent is not such an integer, returns
// `scale`.
SHAMPOO_HD inline int WholeRootScale(int scale, double exponent) {
  const double root = std::fabs(1 / exponent);
  if (!(root >= 1 && root <= 64 && root == std::floor(root))) return scale;
  const int step = static_cast<int>(root);
  const int above = scale % step;
  return scale - (above < 0 ? above + step : above);
}

// Returns the scale for a matrix A whose largest element is `largest` in magnitude. The method of the spec works on A *
// 2^-scale. The epsilon of the spec must be resolved (ResolvedEpsilon).
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

// Returns the factor by which the root of A * 2^-scale is multiplied to obtain the root of A.
SHAMPOO_HD inline double RootFactor(int scale, double exponent) {
  return std::exp2(static_cast<double>(scale) * exponent);
}

// Scales elements of a matrix by 2^-k / divisor. Multiplies each element by a power of two, which rounds nothing, then
// converts it to Root, the dtype in which roots are computed, and then divides it.
template <typename Root>
class ElementScaling {
 public:
  // Let e be the binary exponent of the divisor. The factor 2^-(k + e) may be out of the range of float64, so it is
  // split into two factors. If the final product is in range, each intermediate result is in range, too. The divisor is
  // scaled by 2^-e, because it may be out of the range of Root.
  SHAMPOO_HD ElementScaling(int k, double divisor) : ElementScaling(k, divisor, ExponentOf(divisor)) {}

  template <typename Real>
  SHAMPOO_HD Root operator()(Real value) const {
    return static_cast<Root>(static_cast<double>(value) * half_ * rest_) / divisor_;
  }

 private:
  // Returns the binary exponent of the divisor; 0 if the divisor is 0, negative, infinite or NaN.
  SHAMPOO_HD static int ExponentOf(double divisor) {
    return divisor > 0 && divisor - divisor == 0 ? std::ilogb(divisor) : 0;
  }

  SHAMPOO_HD ElementScaling(int k, double divisor, int exponent)
      : half_(std::ldexp(1.0, -(k + exponent) / 2)),
        rest_(std::ldexp(1.0, -(k + exponent - (k + exponent) / 2))),
        divisor_(static_cast<Root>(std::ldexp(divisor, -exponent))) {}

  double half_;
  double rest_;
  Root divisor_;
};

// Maps an eigenvalue l of a scaled matrix to the eigenvalue of the root. The matrix is scaled by 2^-scale, because an
// unscaled eigenvalue that is subnormal in float64 would have lost digits before epsilon is added.
class RootOfEigenvalue {
 public:
  //   epsilon         for the unscaled matrix
  //   least, largest  the least and the largest eigenvalue of the scaled matrix
  //   smallest        if the exponent is negative, a shifted eigenvalue that is at most `smallest` has no root. Without
  //                   pseudo_inverse, l is shifted to l - min(least, 0) + epsilon * 2^-scale if RootSpec::clamp is
  //                   true, and to l + epsilon * 2^-scale otherwise.
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

  // Returns the eigenvalue of the root; NaN if there is no root. With a relative epsilon, returns the eigenvalue of the
  // root of the scaled matrix, so that the scale has no influence on the digits of the result.
  SHAMPOO_HD double operator()(double l) const {
    if (pseudo_inverse_ && !(l > cutoff_)) return 0;
    // Subtract first: the sum of a large negative eigenvalue and epsilon would lose epsilon.
    const double shifted = pseudo_inverse_ ? l : (l - least_) + epsilon_;
    if (!(shifted > smallest_ || exponent_ >= 0)) return std::numeric_limits<double>::quiet_NaN();
    if (is_scaled_) return std::pow(shifted, exponent_);
    const double original = std::ldexp(shifted, scale_);
    const double magnitude = std::fabs(original);
    if (magnitude >= DBL_MIN && magnitude <= DBL_MAX) return std::pow(original, exponent_);
    // The result is multiplied by two factors, because 2^(scale * exponent) may be out of range although the root is in
    // range.
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

// The probe vector for checks of results: pseudo-random signs, which are the same in every check and on every backend.
class ProbeSigns {
 public:
  // Returns the next sign, 1 or -1. The first call returns the sign of element 0.
  constexpr double Next() {
    state_ = state_ * kMultiplier + kIncrement;
    return Sign();
  }

  // Returns the sign of element i. Computes i + 1 steps of the recurrence by repeated squaring.
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

// Returns the largest |Q^T Q v - v| / |v| that rounding may cause in a dtype with this machine epsilon. Q: the n x n
// matrix of computed eigenvectors. v: the probe vector. For 20,000 difficult matrices, correct solvers stayed far below
// this limit (tests/roots/random_roots.cc).
SHAMPOO_HD inline double ProbeTolerance(int64_t n, double machine_epsilon) {
  return 30 * std::sqrt(static_cast<double>(n)) * machine_epsilon;
}

// Returns whether an eigendecomposition Q^T diag(l) Q of a scaled matrix A in the root dtype passes the check with the
// probe vector v: `lost` and `error` must be at the level of rounding.
//   lost     |Q^T Q v - v| / |v|
//   error    |Q^T diag(l) Q v - A v| / |v|
//   largest  the largest |l|
SHAMPOO_HD inline bool PassesProbe(int64_t n, Dtype root_dtype, double lost, double error, double largest) {
  const double tolerance = ProbeTolerance(n, MachineEpsilon(root_dtype));
  // The elements of A are at most about 1 in magnitude. Contributions below the smallest normal number may be lost.
  return lost <= tolerance && error <= tolerance * largest + SmallestNormal(root_dtype);
}

}  // namespace shampoo

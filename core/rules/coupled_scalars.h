// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/host_device.h"
#include "core/rules/root_spec.h"

// The scalars of the coupled iterations for X = B^(-1/p), where B = 2^-scale A + shift I. The iterations start from
// X = z^(1/p) I and Y = z B. They repeat X <- X T, Y <- T^p Y until Y is close to I. `scale` is RootScale().
// T approximates Y^(-1/p): see NewtonDiagonal() and SeriesCoefficient(). Sources: Higham, Functions of Matrices (2008),
// chapter 7, and the reference implementation (arXiv 2309.06497).
namespace shampoo {

// Two numbers that determine B and the first X and Y.
struct CoupledStart {
  double shift = 0;  // the factor of I in B
  double z = 0;      // the first Y is this multiple of B
};

// Returns the shift of the diagonal for a Newton iteration and for root_method `cans`.
SHAMPOO_HD inline double NewtonShift(const RootSpec& spec, int scale) { return std::ldexp(spec.epsilon, -scale); }

// Returns z for a Newton iteration. norm: the Frobenius norm of B. p: the integer spec.numerator / spec.denominator.
constexpr double NewtonMultiple(int64_t p, double norm) { return static_cast<double>(p + 1) / (2 * norm); }

// Returns shift and z for an iteration of higher order. In this iteration, p is spec.numerator.
// largest: a bound on the largest eigenvalue of A * 2^-scale (EigenvalueBound).
SHAMPOO_HD inline CoupledStart StartHigherOrder(const RootSpec& spec, int scale, double largest) {
  CoupledStart start;
  // If spec.relative_epsilon is above 0, spec.epsilon is already resolved (ResolvedEpsilon): it is the shift of A.
  // If spec.relative_epsilon is 0, the shift is spec.epsilon times `largest`, but at least 1e-16 * 2^-scale.
  start.shift = std::ldexp(spec.relative_epsilon > 0 ? spec.epsilon : 1e-16, -scale);
  const double of_bound = spec.epsilon * largest;
  if (spec.relative_epsilon == 0 && !(of_bound < start.shift)) start.shift = of_bound;
  largest += start.shift;
  const auto p = static_cast<double>(spec.numerator);
  const double k = std::pow(largest / start.shift, 1 / p);
  const double ratio = k == 1 ? 0 : (k * largest - start.shift) / (k * largest - largest);
  const double c = 1.001 < ratio ? ratio : 1.001;
  start.z = (p + 1) / (c * largest);
  return start;
}

// Returns a bound on the largest eigenvalue of M = 2^-scale A. |M| is the largest row sum of magnitudes of elements.
// The bound is |M| if row_sum_epsilon is true, otherwise min(|M|, |M^4|^(1/4)). row_sum: |M|. row_sum_of_fourth: |M^4|.
SHAMPOO_HD inline double EigenvalueBound(const RootSpec& spec, double row_sum, double row_sum_of_fourth) {
  const double of_fourth = std::pow(row_sum_of_fourth, 0.25);
  return of_fourth < row_sum && !spec.row_sum_epsilon ? of_fourth : row_sum;
}

// Returns z^(1/p), the first X as a multiple of I.
SHAMPOO_HD inline double RootOfMultiple(double z, int64_t p) { return std::pow(z, 1 / static_cast<double>(p)); }

// Returns the factor of I in Newton's T = ((p + 1) I - Y) / p.
constexpr double NewtonDiagonal(int64_t p) { return static_cast<double>(p + 1) / static_cast<double>(p); }

// Returns the coefficient b_i in the power series of Y^(-1/p): the sum of b_i (I - Y)^i. In an iteration of higher
// order, T is the sum of the terms with i < order.
constexpr double SeriesCoefficient(int64_t i, int64_t p) {
  double b = 1;
  for (int64_t k = 1; k <= i; ++k) b *= static_cast<double>(1 + (k - 1) * p) / static_cast<double>(k * p);
  return b;
}

// The state of a coupled iteration. kAtMaximum: max_iterations is reached, or the error is NaN. Except for kRunning,
// the values are those of RootOutcome::converged.
enum class CoupledState : int32_t { kStalled = -1, kAtMaximum = 0, kConverged = 1, kRunning = 2 };

// Returns the state of a coupled iteration.
//   iterations  the number of steps so far
//   before      the error one step earlier
//   error       the current max |Y - I|
constexpr CoupledState StateAfter(const RootSpec& spec, int64_t iterations, double before, double error) {
  // If an error below this number stops decreasing, it is at the level of rounding errors.
  constexpr double kNearlyConverged = 0.01;
  const bool is_higher_order = spec.method == RootMethod::kHigherOrder;
  // After the first step of higher_order, there is no earlier error to compare with.
  if (iterations > (is_higher_order ? 1 : 0)) {
    const bool stalls = is_higher_order ? error > 1.2 * before || error == before
                                        : error >= before && before <= kNearlyConverged && error > spec.tolerance;
    if (stalls) return CoupledState::kStalled;
  }
  if (error <= spec.tolerance) return CoupledState::kConverged;
  const bool is_nan = !(error <= 0) && !(error > 0);
  return iterations >= spec.max_iterations || is_nan ? CoupledState::kAtMaximum : CoupledState::kRunning;
}

}  // namespace shampoo

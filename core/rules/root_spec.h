// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/dtype.h"
#include "core/config/settings.h"

namespace shampoo {

// How a root was computed. The values are those of shampoo_root_info::method.
enum class RootKind : int32_t { kScalar = 0, kDiagonal = 1, kEigen = 2, kNewton = 3, kHigherOrder = 4, kCans = 5 };
inline constexpr size_t kRootKindCount = 6;

// Why a root could not be computed.
enum class RootFailure {
  kNone,
  kNanInput,
  kInfInput,
  kSolver,        // the eigensolver reported a failure
  kWrongResult,   // a solver reported success, but its result does not fit the matrix
  kNotConverged,  // an iteration ended far from a root
  kSingular,      // an eigenvalue is 0 up to rounding, even after epsilon was added
  kOutOfRange,    // the root does not fit its dtype
};

// Specifies a root and how to compute it. Source of the formulas: arXiv 2309.06497 and its reference implementation;
// Higham, Functions of Matrices (2008), chapter 7, for the coupled iterations.
struct RootSpec {
  RootMethod method = RootMethod::kEigen;
  // The root of a matrix A is X = A^exponent. `exponent` is -denominator / numerator times the key exponent_multiplier.
  double exponent = -1;
  int64_t numerator = 1;
  int64_t denominator = 1;
  // `epsilon` is added to the eigenvalues, with two exceptions: with pseudo_inverse, nothing is added; if
  // relative_epsilon is 0, method higher_order adds `epsilon` times a bound on the largest eigenvalue. If
  // relative_epsilon is above 0, `epsilon` is set to relative_epsilon times the mean eigenvalue once the matrix is
  // known (ResolvedEpsilon). relative_epsilon keeps its value, because later code checks whether it is above 0.
  double epsilon = 0;
  double relative_epsilon = 0;
  // The key trace_scaling. Before a step computes a root, it divides the matrix by a power of its trace (TraceDivisor).
  // The function InverseRoot() itself does not divide.
  double trace_scaling = 0;
  // The next five fields are for the coupled iterations.
  double tolerance = 1e-6;
  int64_t max_iterations = 100;
  int64_t order = 3;                // method higher_order: the order of convergence
  bool row_sum_epsilon = false;     // method higher_order: bound the eigenvalues by the largest row sum of magnitudes
  bool accept_unconverged = false;  // accept the result after max_iterations, even if it has not converged
  // If pseudo_inverse is true, eigenvalues at or below max(rank_rtol * largest, rank_atol) count as 0, and the
  // corresponding eigenvalues of the root are 0.
  bool pseudo_inverse = false;
  double rank_rtol = 0;
  double rank_atol = 0;
  bool clamp = true;             // method eigen: if the least eigenvalue is negative, subtract it from all eigenvalues
  bool may_be_diagonal = false;  // whether the root of a diagonal matrix is computed elementwise (kDiagonal). Steps
                                 // pass true until a refresh finds an off-diagonal element that is not 0.
  bool eigenvectors = false;     // method eigen: always compute eigenvectors, for comparisons
  int64_t id = -1;               // number of the factor matrix in its plan, for tests that make one root fail
};

// Returns the exponent of the root of degree numerator / denominator.
constexpr double ExponentOfRoot(const GroupSettings& settings, int64_t numerator, int64_t denominator) {
  return -settings.exponent_multiplier * static_cast<double>(denominator) / static_cast<double>(numerator);
}

// Returns the method that computes the root of degree numerator / denominator of an n x n matrix. This is the method of
// the settings, except that eigen replaces cans if cans does not support the root. Method cans supports only the
// exponents -1/2 and -1/4, and only n above 1.
constexpr RootMethod MethodOfRoot(const GroupSettings& settings, int64_t numerator, int64_t denominator, int64_t n) {
  const double exponent = ExponentOfRoot(settings, numerator, denominator);
  const bool has_cans = n > 1 && (exponent == -0.5 || exponent == -0.25);
  return settings.root_method == RootMethod::kCans && !has_cans ? RootMethod::kEigen : settings.root_method;
}

// Returns the dtype in which a method computes a root. requested: the dtype that the key root_dtype selects.
constexpr Dtype DtypeOfMethod(RootMethod method, Dtype requested) {
  return method == RootMethod::kCans ? Dtype::kF64 : requested;
}

// Returns the spec of the root of degree numerator / denominator with a group's settings:
// X = A^(-exponent_multiplier * denominator / numerator). The default of root_rank_rtol depends on n, the size of A,
// and on the dtype.
constexpr RootSpec MakeRootSpec(const GroupSettings& settings, int64_t numerator, int64_t denominator, int64_t n,
                                Dtype root_dtype) {
  RootSpec spec;
  spec.numerator = numerator;
  spec.denominator = denominator;
  spec.exponent = ExponentOfRoot(settings, numerator, denominator);
  spec.method = MethodOfRoot(settings, numerator, denominator, n);
  spec.epsilon = settings.epsilon;
  spec.relative_epsilon = settings.root_relative_epsilon;
  spec.trace_scaling = settings.trace_scaling;
  spec.tolerance = settings.root_tolerance;
  spec.max_iterations = settings.root_max_iterations;
  spec.order = settings.root_order;
  spec.row_sum_epsilon = settings.row_sum_epsilon;
  spec.pseudo_inverse = settings.root_rank_handling == RankHandling::kPseudoInverse;
  spec.rank_rtol =
      settings.root_rank_rtol >= 0 ? settings.root_rank_rtol : static_cast<double>(n) * MachineEpsilon(root_dtype);
  spec.rank_atol = settings.root_rank_atol;
  return spec;
}

}  // namespace shampoo

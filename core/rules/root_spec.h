// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/dtype.h"
#include "core/config/settings.h"

namespace shampoo {

// How a root came about; the values are those of shampoo_root_info::method.
enum class RootKind : int32_t { kScalar = 0, kDiagonal = 1, kEigen = 2, kNewton = 3, kHigherOrder = 4 };
inline constexpr size_t kRootKindCount = 5;

// Why a root could not be computed.
enum class RootFailure {
  kNone,
  kNanInput,
  kInfInput,
  kSolver,        // the eigensolver reports that it failed
  kWrongResult,   // a solver reports success, and its result does not fit the matrix
  kNotConverged,  // an iteration ends away from a root
  kSingular,      // a shifted eigenvalue is 0, to rounding
  kOutOfRange,    // the root is beyond the dtype that has to hold it
};

// What root is wanted, and by which rules. Source of the formulas: arXiv 2309.06497 and its release; Higham, Functions
// of Matrices (2008), chapter 7, for the coupled iterations.
struct RootSpec {
  RootMethod method = RootMethod::kEigen;
  // X = A^exponent, exponent = -exponent_multiplier * denominator / numerator.
  double exponent = -1;
  int64_t numerator = 1;
  int64_t denominator = 1;
  // Added to the eigenvalues: `epsilon`, or, if relative_epsilon is above 0, that times their mean. When the matrix is
  // known, `epsilon` becomes the product (ResolvedEpsilon), and relative_epsilon remains as a mark.
  double epsilon = 0;
  double relative_epsilon = 0;
  // The coupled iterations.
  double tolerance = 1e-6;
  int64_t max_iterations = 100;
  int64_t order = 3;
  bool accept_unconverged = false;  // the result of max_iterations is an answer, and not a reason to go up the ladder
  // Eigenvalues at or below max(rank_rtol * largest, rank_atol) count as 0, and their directions are dropped.
  bool pseudo_inverse = false;
  double rank_rtol = 0;
  double rank_atol = 0;
  bool clamp = true;             // method eigen: negative eigenvalues raise all of them until the least is 0
  bool may_be_diagonal = false;  // no element off the diagonal was ever different from 0
  bool eigenvectors = false;     // method eigen: always computes them, for comparisons
  int64_t id = -1;               // of the factor matrix within its plan, for tests that make a certain one fail
};

// Returns the spec of the root p / q by a group's settings: X = A^(-exponent_multiplier * q / p). n, the order of A,
// and the dtype decide the default of root_rank_rtol.
constexpr RootSpec MakeRootSpec(const GroupSettings& settings, int64_t numerator, int64_t denominator, int64_t n,
                                Dtype root_dtype) {
  RootSpec spec;
  spec.method = settings.root_method;
  spec.numerator = numerator;
  spec.denominator = denominator;
  spec.exponent = -settings.exponent_multiplier * static_cast<double>(denominator) / static_cast<double>(numerator);
  spec.epsilon = settings.epsilon;
  spec.relative_epsilon = settings.root_relative_epsilon;
  spec.tolerance = settings.root_tolerance;
  spec.max_iterations = settings.root_max_iterations;
  spec.order = settings.root_order;
  spec.pseudo_inverse = settings.root_rank_handling == RankHandling::kPseudoInverse;
  spec.rank_rtol =
      settings.root_rank_rtol >= 0 ? settings.root_rank_rtol : static_cast<double>(n) * MachineEpsilon(root_dtype);
  spec.rank_atol = settings.root_rank_atol;
  return spec;
}

}  // namespace shampoo

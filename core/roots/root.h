// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

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
  kWrong,         // a solver reports success, and its result does not fit the matrix
  kNotConverged,  // an iteration ends away from a root
  kSingular,      // a shifted eigenvalue is 0, to rounding
  kOutOfRange,    // the root is beyond the dtype that has to hold it
};

// The attempts that the recovery ladder makes, in its order; those that are the same as an earlier one are left out.
enum class Rung {
  kAsked,     // the method and root dtype that were asked for
  kFloat64,   // the same method in float64
  kEigen,     // eigendecomposition in float64, divide and conquer (dsyevd)
  kEigenRrr,  // in float64 by relatively robust representations (dsyevr)
  kEigenQr,   // in float64 by implicit QR (dsteqr, by way of dsyev)
};
inline constexpr size_t kRungCount = 5;

enum class EigenDriver { kDivideAndConquer, kRelativelyRobust, kImplicitQr };

// What root is wanted, and by which rules. Source of the formulas: arXiv 2309.06497 and its release; Higham, Functions
// of Matrices (2008), chapter 7, for the coupled iterations.
struct RootSpec {
  RootMethod method = RootMethod::kEigen;
  // X = A^exponent, exponent = -exponent_multiplier * denominator / numerator.
  double exponent = -1;
  int64_t numerator = 1;
  int64_t denominator = 1;
  // Added to the eigenvalues: `epsilon`, or, if that is above 0, relative_epsilon times their mean. ComputeRoot
  // replaces the latter by the former (WithEpsilonOf) and keeps relative_epsilon as a mark.
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

// The root p / q that a spec asks for, by a group's settings: X = A^(-exponent_multiplier * q / p). n and the dtype
// decide the default of root_rank_rtol.
RootSpec MakeRootSpec(const Settings& settings, int64_t numerator, int64_t denominator, int64_t n, Dtype root_dtype);

struct RootOutcome {
  RootKind kind = RootKind::kEigen;
  RootFailure failure = RootFailure::kNone;
  Rung rung = Rung::kAsked;                        // that gave the root
  RootFailure first_failure = RootFailure::kNone;  // of rung kAsked, if another gave the root
  int rungs_used = 0;                              // beyond kAsked
  int iterations = 0;
  int converged = 1;  // 1: yes; 0: the maximum of iterations was reached; -1: stopped early
  int solver_info = 0;
  double epsilon = 0;           // what was added to the eigenvalues, a relative epsilon worked out
  double shift = 0;             // the same with the clamp of method eigen: A + shift I is the matrix whose root this is
  bool diagonal_input = false;  // nothing off the diagonal of the matrix is different from 0
  bool ok() const { return failure == RootFailure::kNone; }
};

// What comes behind "... could not be computed: ".
const char* FailureText(RootFailure failure);
// What comes behind "computed by ": "float64", ...
const char* RungText(Rung rung);

}  // namespace shampoo

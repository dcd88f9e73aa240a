// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rules/root_spec.h"

namespace shampoo {

// The attempts that the recovery ladder makes, in its order; those that are the same as an earlier one are left out.
enum class Rung {
  kRequested,  // the method and root dtype that were asked for
  kFloat64,    // the same method in float64
  kEigen,      // eigendecomposition in float64, divide and conquer (dsyevd)
  kEigenRrr,   // in float64 by relatively robust representations (dsyevr)
  kEigenQr,    // in float64 by implicit QR (dsteqr, by way of dsyev)
};
inline constexpr size_t kRungCount = 5;

enum class EigenDriver { kDivideAndConquer, kRelativelyRobust, kImplicitQr };

struct RootOutcome {
  RootKind kind = RootKind::kEigen;
  RootFailure failure = RootFailure::kNone;
  Rung rung = Rung::kRequested;                    // that gave the root
  RootFailure first_failure = RootFailure::kNone;  // of rung kRequested, if another gave the root
  int rungs_used = 0;                              // beyond kRequested
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

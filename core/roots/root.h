// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rules/root_spec.h"

namespace shampoo {

// The rungs of the recovery ladder, in the order in which they are tried. A rung that would repeat an earlier one is
// skipped. The two rungs of a device, at the end of the list, are tried between kRequested and kFloat64.
enum class Rung {
  kRequested,     // the requested method and root dtype
  kFloat64,       // the same method in float64
  kEigen,         // eigendecomposition in float64, divide and conquer (dsyevd)
  kEigenRrr,      // eigendecomposition in float64, relatively robust representations (dsyevr)
  kEigenQr,       // eigendecomposition in float64, implicit QR (dsteqr, called by dsyev)
  kDeviceEigen,   // eigendecomposition of the matrix alone, instead of in a batch
  kDeviceNewton,  // coupled Newton iteration
};
inline constexpr size_t kRungCount = 7;

enum class EigenDriver { kDivideAndConquer, kRelativelyRobust, kImplicitQr };

struct RootOutcome {
  RootKind kind = RootKind::kEigen;
  RootFailure failure = RootFailure::kNone;
  Rung rung = Rung::kRequested;                    // the rung that computed the root
  RootFailure first_failure = RootFailure::kNone;  // of rung kRequested, if other rungs were tried
  int rungs_used = 0;                              // rungs tried after kRequested
  int iterations = 0;
  int converged = 1;  // 1: yes; 0: the maximum of iterations was reached; -1: the error no longer decreased
  int solver_info = 0;
  double epsilon = 0;  // the absolute number that was added to the eigenvalues, even with root_relative_epsilon
  // The root is that of A + shift I. shift is epsilon or, if the clamp subtracted a negative eigenvalue l, epsilon - l.
  double shift = 0;
  bool diagonal_input = false;  // all off-diagonal elements of the matrix are 0
  bool ok() const { return failure == RootFailure::kNone; }
};

// Returns the text that follows "... could not be computed: ".
const char* FailureText(RootFailure failure);
// Returns the text that follows "computed by ": "the same method in float64", ...
const char* RungText(Rung rung);

}  // namespace shampoo

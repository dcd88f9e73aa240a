// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rules/root_spec.h"

namespace shampoo {

// The rungs of the recovery ladder. They are tried in this order, except that kDeviceEigen and kDeviceNewton are tried
// between kRequested and kFloat64. A rung that would repeat an earlier rung is skipped.
enum class Rung {
  kRequested,     // the requested method and root dtype
  kFloat64,       // the same method in float64
  kEigen,         // eigendecomposition in float64, divide and conquer (dsyevd)
  kEigenRrr,      // eigendecomposition in float64, relatively robust representations (dsyevr)
  kEigenQr,       // eigendecomposition in float64, implicit QR (dsteqr, called by dsyev)
  kDeviceEigen,   // on a device: eigendecomposition of the matrix alone instead of in a batch
  kDeviceNewton,  // on a device: coupled Newton iteration
};
inline constexpr size_t kRungCount = 7;

// LAPACK's algorithms for eigendecompositions. On the host, kEigenRrr uses kRelativelyRobust, kEigenQr uses
// kImplicitQr, and all other rungs use kDivideAndConquer.
enum class EigenDriver { kDivideAndConquer, kRelativelyRobust, kImplicitQr };

struct RootOutcome {
  RootKind kind = RootKind::kEigen;
  RootFailure failure = RootFailure::kNone;
  Rung rung = Rung::kRequested;                    // the rung that computed the root
  RootFailure first_failure = RootFailure::kNone;  // the failure of rung kRequested, if other rungs were tried
  int rungs_used = 0;                              // the number of rungs that were tried after kRequested
  int iterations = 0;
  int converged = 1;    // see CoupledResult::converged in coupled.h; 1 with a method that is not a coupled iteration
  int solver_info = 0;  // info of LAPACK or cuSOLVER; 0: success
  double epsilon = 0;   // the number e that the key epsilon or root_relative_epsilon added to each eigenvalue
  // Unless the matrix A is negligible (MatrixFacts), the computed root is a root of A + shift I. shift is e, or e - l
  // if the negative least eigenvalue l was also subtracted (RootSpec::clamp). With pseudo_inverse, epsilon and shift
  // are 0.
  double shift = 0;
  bool diagonal_input = false;  // all off-diagonal elements of the matrix are 0
  bool ok() const { return failure == RootFailure::kNone; }
};

// Returns the reason that messages state after "could not be computed: ", such as "the matrix contains NaN".
const char* FailureText(RootFailure failure);
// Returns the name of a rung for messages, in which it follows "recovered by ", such as "the same method in float64".
const char* RungText(Rung rung);

}  // namespace shampoo

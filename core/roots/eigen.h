// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

enum class RootMethod : int32_t { kScalar = 0, kDiagonal = 1, kEigen = 2 };

// Why a root could not be computed.
enum class RootFailure { kNone, kNanInput, kInfInput, kSolver, kNotFinite };

struct RootOutcome {
  RootMethod method = RootMethod::kEigen;
  RootFailure failure = RootFailure::kNone;
  int solver_info = 0;  // LAPACK's, for kSolver
  bool ok() const { return failure == RootFailure::kNone; }
};

// What comes behind "... could not be computed: ".
const char* FailureText(RootFailure failure);

// Memory for roots of matrices up to n x n, in elements of Real (and int32 for int_work).
template <typename Real>
struct RootWorkspace {
  Real* a;            // n * n
  Real* eigenvalues;  // n
  Real* work;         // blas::SyevdWork(n)
  int32_t* int_work;  // blas::SyevdIntWork(n)
};

// The inverse root X = A^exponent of the symmetric n x n matrix in workspace.a, of which the lower triangle is read and
// which is destroyed. All elements of x are written, in full.
//
// Method eigen: A = Q diag(l) Q^T; l <- l - min(min(l), 0) + epsilon; X = Q diag(l^exponent) Q^T. A 1 x 1 matrix and,
// if `diagonal` (every element off the diagonal is exactly 0), a diagonal one skip the decomposition and the clamp:
// (a_ii + epsilon)^exponent, unless that is not finite, in which case the clamp applies after all.
// On failure x is unspecified.
template <typename Real>
RootOutcome EigenInverseRoot(int64_t n, bool diagonal, double epsilon, double exponent,
                             const RootWorkspace<Real>& workspace, Real* x);

// Looks at the lower triangle: NaN, infinity, and whether anything off the diagonal is not 0.
template <typename Real>
RootFailure InspectMatrix(int64_t n, const Real* a, bool* diagonal);

}  // namespace shampoo

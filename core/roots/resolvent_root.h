// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/roots/root.h"
#include "core/roots/workspace.h"

namespace shampoo {

// The result of RunResolvents(), which computes X = (A + shift I)^(-1/2) in float32 without eigenvectors:
// 1. A is reduced to a tridiagonal T with A = Q T Q^T.
// 2. Y = (T + shift I)^(-1/2) is computed as a sum of shifted inverses (see resolvent.h).
// 3. X is Q Y Q^T.
struct ResolventResult {
  bool suitable = false;  // false: there is no result, because ResolventSum::IsSuitable() is false
  int solver_info = 0;    // LAPACK's info; if it is not 0, `suitable` is true and there is no result
  double least = 0;       // min(l, 0), where l is a lower bound on the least eigenvalue of A
  float* x = nullptr;     // n x n, exactly symmetric, in the workspace
  // v is the probe vector Q u, where u is a vector of pseudo-random signs. av is Q T u, and xv is Q Y u. If the result
  // is correct, av = A v and xv = X v. The three vectors are columns of an n x stride matrix.
  int64_t stride = 0;
  const float* v = nullptr;
  const float* av = nullptr;
  const float* xv = nullptr;
  double largest_of_a = 0;  // an upper bound on the magnitudes of the eigenvalues of A
  double largest_of_x = 0;  // an upper bound on the eigenvalues of X
  double root_error = 0;    // |(T + shift I) Y Y u - u| / |u|
};

// Returns whether this rung of the recovery ladder calls ResolventRoot() if it computes in float32. If ResolventRoot()
// sets *suitable to false, the same rung computes the root with eigenvectors.
bool UsesResolvents(const RootSpec& spec, Rung rung, int64_t n);

// Computes the inverse square root of the matrix A + shift I, where the lower triangle of A is in workspace.Matrix(n).
// Does not change A.
//   epsilon    determines shift = epsilon - ResolventResult::least
//   by_lapack  whether LAPACK reduces A to T even if there is a faster kernel; for tests
ResolventResult RunResolvents(int64_t n, double epsilon, const RootWorkspace<float>& workspace, bool by_lapack = false);

// Computes an inverse square root from the same input as EigenRoot() (see eigen.h): the workspace contains A *
// 2^-scale. *x is the root of this scaled matrix, so the caller multiplies *x by 2^(-scale / 2). EigenRoot() differs if
// spec.relative_epsilon is 0: its *x is then the root of A. Sets *suitable to ResolventResult::suitable. If *suitable
// is false, *x is unchanged. Never changes the matrix in the workspace.
RootOutcome ResolventRoot(const RootSpec& spec, Rung rung, int64_t n, int scale, const RootWorkspace<float>& workspace,
                          float** x, bool* suitable);

}  // namespace shampoo

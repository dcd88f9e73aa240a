// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/roots/root.h"
#include "core/roots/workspace.h"

namespace shampoo {

// The result of X = (A + shift I)^(-1/2) in float32 without eigenvectors: A is reduced to A = Q T Q^T with a
// tridiagonal T, (T + shift I)^(-1/2) is computed as a sum of shifted inverses (core/roots/resolvent.h), and Q is
// applied on both sides.
struct ResolventResult {
  bool suitable = false;  // false: no result, because ResolventSum::IsSuitable() is false
  int solver_info = 0;    // LAPACK's info
  double least = 0;       // min(least eigenvalue, 0)
  float* x = nullptr;     // n x n, exactly symmetric, in the workspace
  // The probe vector v = Q u, where u is a vector of pseudo-random signs, and the values that A v and X v have if the
  // result is correct. The three vectors are columns of an n x stride matrix.
  int64_t stride = 0;
  const float* v = nullptr;
  const float* av = nullptr;
  const float* xv = nullptr;
  double largest_of_a = 0;  // bounds on the largest magnitudes of eigenvalues of A and of X
  double largest_of_x = 0;
  double root_error = 0;  // |(T + shift I) Y Y u - u| / |u|, where Y is the computed sum
};

// Returns whether ResolventRoot is tried for a root of dtype float32. If the matrix proves to be unsuitable
// (ResolventResult::suitable), the root is computed with eigenvectors.
bool UsesResolvents(const RootSpec& spec, Rung rung, int64_t n);

// Computes the root of the matrix whose lower triangle is in workspace.Matrix(n), without changing the matrix.
//   epsilon    added to the eigenvalues, after min(least eigenvalue, 0) has been subtracted from them
//   by_lapack  reduce with LAPACK even if there is a faster kernel; for tests
ResolventResult RunResolvents(int64_t n, double epsilon, const RootWorkspace<float>& workspace, bool by_lapack = false);

// Computes the same root as EigenRoot, from the same input: the workspace contains A * 2^-scale. *x is the root of this
// scaled matrix, even if epsilon is not relative: the caller multiplies *x by 2^(-scale / 2). If the root needs
// eigenvectors, *suitable is set to false, and the matrix in the workspace is unchanged.
RootOutcome ResolventRoot(const RootSpec& spec, Rung rung, int64_t n, int scale, const RootWorkspace<float>& workspace,
                          float** x, bool* suitable);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/roots/root.h"
#include "core/roots/workspace.h"

namespace shampoo {

// X = (A + shift I)^(-1/2) in float32 without eigenvectors: A = Q T Q^T with a tridiagonal T, (T + shift I)^(-1/2) as a
// sum of shifted inverses (core/roots/resolvent.h), and Q applied from both sides.
struct ResolventResult {
  bool suitable = false;  // false: no result, because the condition is beyond float32
  int solver_info = 0;    // LAPACK's
  double least = 0;       // the least eigenvalue, as far as it is below 0
  float* x = nullptr;     // in the workspace: n x n, exactly symmetric
  // What a correct result does to the vector v = Q u, u of random signs. They lie in the columns of an n x stride
  // matrix.
  int64_t stride = 0;
  const float* v = nullptr;
  const float* av = nullptr;
  const float* xv = nullptr;
  double largest_of_a = 0;  // largest magnitude of an eigenvalue, or a little more
  double largest_of_x = 0;
  double root_error = 0;  // |(T + shift I) Y Y u - u| / |u|, Y what the sum gives
};

// Whether the root is computed so, in float32.
bool UsesResolvents(const RootSpec& spec, Rung rung, int64_t n);

// The matrix is in workspace.Matrix(n) (lower triangle), and stays there. epsilon: added to its eigenvalues after they
// have been raised until the least is not below 0.
// by_lapack: reduces by LAPACK even if there is a faster kernel, for tests.
ResolventResult RunResolvents(int64_t n, double epsilon, const RootWorkspace<float>& workspace, bool by_lapack = false);

// As EigenRoot; *x is always the root of the scaled matrix, which the caller multiplies by 2^(-scale / 2). *suitable:
// false if the root needs eigenvectors, for which the workspace still holds the matrix.
RootOutcome ResolventRoot(const RootSpec& spec, Rung rung, int64_t n, int scale, const RootWorkspace<float>& workspace,
                          float** x, bool* suitable);

}  // namespace shampoo

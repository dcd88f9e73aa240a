// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/roots/root.h"
#include "core/roots/workspace.h"

namespace shampoo {

// The result of a coupled iteration (core/rules/coupled_scalars.h) for X = B^(-1/p) with B = 2^-scale A + shift I.
template <typename Root>
struct CoupledResult {
  int iterations = 0;
  // 1: the iteration converged. 0: it reached the maximum number of iterations, or the error is NaN. -1: it stopped
  // because the error no longer decreased.
  int converged = 1;
  double error = 0;     // the largest magnitude in Y - I at the end, where Y = B X^p converges to I
  double shift = 0;     // added to the diagonal of the scaled matrix
  Root* x = nullptr;    // n x n, in the workspace
  Root* spare[3] = {};  // the other three matrices of the workspace, which the caller may use
};

// NewtonRoot and HigherOrderRoot expect the full matrix 2^-scale A in workspace.Matrix(0, n) and destroy it. Their
// result is X = B^(-1/p). The inverse p-th root of the unscaled matrix A + 2^scale shift I is 2^(-scale / p) X.

// Runs the coupled inverse Newton iteration: X <- X T, Y <- T^p Y with T = ((p + 1) I - Y) / p. Requires that
// p = spec.numerator / spec.denominator is an integer.
template <typename Root>
CoupledResult<Root> NewtonRoot(const RootSpec& spec, int64_t n, int scale, const RootWorkspace<Root>& workspace);

// Runs the coupled iteration whose order of convergence is spec.order. StartHigherOrder (core/rules/coupled_scalars.h)
// determines the shift. X is B^(-1/p) with p = spec.numerator. The caller raises X to the power spec.denominator.
template <typename Root>
CoupledResult<Root> HigherOrderRoot(const RootSpec& spec, int64_t n, int scale, const RootWorkspace<Root>& workspace);

// Sets *y to the product of (*t)^power and *y. Requires symmetric matrices that commute, and power >= 1. Destroys the
// matrices *t and *spare. The call may exchange the three pointers.
template <typename Root>
void MultiplyByPower(int64_t n, int64_t power, Root** t, Root** y, Root** spare);

}  // namespace shampoo

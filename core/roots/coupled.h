// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/roots/root.h"
#include "core/roots/workspace.h"

namespace shampoo {

// The result of a coupled iteration for X = B^(-1/p) with B = A + shift I.
template <typename Root>
struct CoupledResult {
  int iterations = 0;
  // 1: converged. 0: the maximum of iterations was reached, or the error is NaN. -1: stopped, because the error no
  // longer decreased.
  int converged = 1;
  double error = 0;     // max |Y - I| at the end, where Y = B X^p converges to I
  double shift = 0;     // added to the diagonal of the scaled matrix
  Root* x = nullptr;    // n x n, in the workspace
  Root* spare[3] = {};  // the other three matrices of the workspace, which the caller may use
};

// NewtonRoot and HigherOrderRoot expect the full matrix A * 2^-scale in workspace.Matrix(0, n) and destroy it. X is the
// root of the scaled matrix: the caller multiplies it by 2^(-scale / p).

// Runs the coupled inverse Newton iteration: X <- X T, Y <- T^p Y with T = ((p + 1) I - Y) / p. p is
// numerator / denominator, an integer.
template <typename Root>
CoupledResult<Root> NewtonRoot(const RootSpec& spec, int64_t n, int scale, const RootWorkspace<Root>& workspace);

// Runs the coupled iteration of order spec.order. StartHigherOrder (core/rules/coupled_scalars.h) determines the shift.
// X is the inverse root with p = numerator; the caller raises it to the power `denominator`.
template <typename Root>
CoupledResult<Root> HigherOrderRoot(const RootSpec& spec, int64_t n, int scale, const RootWorkspace<Root>& workspace);

// y <- t^power y for symmetric matrices that commute, power >= 1. Destroys t and spare. The result is in *y. The call
// may exchange the three pointers.
template <typename Root>
void MultiplyByPower(int64_t n, int64_t power, Root** t, Root** y, Root** spare);

}  // namespace shampoo

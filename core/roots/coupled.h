// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/roots/root.h"
#include "core/roots/workspace.h"

namespace shampoo {

// What an iteration for X = B^(-1/p), B = A + shift I, ends with.
template <typename Root>
struct CoupledResult {
  int iterations = 0;
  int converged = 1;    // 1: yes; 0: the maximum was reached; -1: stopped early, as it got no better
  double error = 0;     // max |Y - I| at the end: Y = B X^p goes to I
  double shift = 0;     // of the scaled matrix
  Root* x = nullptr;    // in the workspace: n x n
  Root* spare[3] = {};  // the other three matrices of the workspace, free for use
};

// The matrix A * 2^-scale is in workspace.Matrix(0, n), in full, and is destroyed. The results are those of the scaled
// matrix: the caller multiplies X by 2^(-scale / p).

// Coupled inverse Newton: X <- X T, Y <- T^p Y with T = ((p + 1) I - Y) / p, p = numerator / denominator, a whole
// number.
template <typename Root>
CoupledResult<Root> NewtonRoot(const RootSpec& spec, int64_t n, int scale, const RootWorkspace<Root>& workspace);

// The coupled iteration of order spec.order, with an epsilon that is relative to a bound on the largest eigenvalue; X
// is the root of `numerator` alone: the power `denominator` is the caller's.
template <typename Root>
CoupledResult<Root> HigherOrderRoot(const RootSpec& spec, int64_t n, int scale, const RootWorkspace<Root>& workspace);

// y <- t^power y for symmetric matrices that commute, power >= 1. t and spare are destroyed; *y may change places with
// *spare.
template <typename Root>
void MultiplyByPower(int64_t n, int64_t power, Root** t, Root** y, Root** spare);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/roots/root.h"
#include "core/roots/workspace.h"

namespace shampoo {

// The result of the root method `cans`: X = B^exponent with B = 2^-scale A + shift I, where A is the factor matrix.
struct CansResult {
  int iterations = 0;
  double shift = 0;         // added to the diagonal of the scaled matrix
  double* x = nullptr;      // n x n, exactly symmetric, in the workspace
  double* spare = nullptr;  // another matrix of the workspace, which the caller may use
};

// Computes a root with the exponent -1/2 or -1/4 by a fixed number of products (core/rules/cans_scalars.h). Expects the
// full matrix 2^-scale A in workspace.Matrix(0, n) and destroys it. X is the root of B. The caller multiplies X by
// 2^(scale * exponent), which gives the root of 2^scale B = A + 2^scale shift I. Always computes in float64, because
// float32 would keep only 3 digits at a condition number of 1e5. The caller must check the result with CansResidual().
CansResult CansRoot(const RootSpec& spec, int64_t n, int scale, const RootWorkspace<double>& workspace);

// Returns an estimate of the spectral radius of I - X^(p/2) B X^(p/2), where p = -1 / exponent, and `b` and `x` hold
// the full matrices B and X. Returns NaN if an element of b or x is not finite. Uses vectors 0 to 2 of the workspace.
double CansResidual(const RootSpec& spec, int64_t n, const double* b, const double* x,
                    const RootWorkspace<double>& workspace);

}  // namespace shampoo

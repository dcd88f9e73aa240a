// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/roots/matrix.h"
#include "core/roots/root.h"
#include "core/roots/workspace.h"

namespace shampoo {

// X = A^exponent by eigendecomposition, A the matrix whose part A * 2^-scale lies in workspace.Matrix(n) (lower
// triangle; destroyed): A = Q diag(l) Q^T; l <- l - min(min(l), 0) + epsilon; X = Q diag(l^exponent) Q^T. With
// spec.pseudo_inverse directions of an l that counts as 0 are left out instead.
//
// A sampled check catches a decomposition that is wrong though the solver does not say so. On success *x points to X in
// the workspace: n x n, exactly symmetric, not yet checked for being finite. With a relative epsilon it is the root of
// the scaled matrix, which the caller multiplies by 2^(scale * exponent).
template <typename Root>
RootOutcome EigenRoot(const RootSpec& spec, Rung rung, EigenDriver driver, int64_t n, int scale,
                      const RootWorkspace<Root>& workspace, Root** x);

// The same for a matrix that has nothing off its diagonal, element by element and without the clamp: (a_ii +
// epsilon)^exponent, unless that is not finite, in which case the clamp applies after all. 1 x 1 matrices are such.
// scale: 0, or that of a relative epsilon.
template <typename Real, typename Root>
RootOutcome DiagonalRoot(const RootSpec& spec, const SymmetricView<Real>& matrix, int scale,
                         const RootWorkspace<Root>& workspace, Root** x);

}  // namespace shampoo

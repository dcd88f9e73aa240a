// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/roots/matrix.h"
#include "core/roots/root.h"
#include "core/roots/workspace.h"

namespace shampoo {

// Computes X = A^exponent by eigendecomposition: A = Q diag(l) Q^T; l <- l - min(min(l), 0) + epsilon;
// X = Q diag(l^exponent) Q^T. Without spec.clamp, min(min(l), 0) is not subtracted. With spec.pseudo_inverse, l is
// not changed, and eigenvectors whose eigenvalue counts as 0 (RootSpec::pseudo_inverse) are omitted. On entry, the
// lower triangle of workspace.Matrix(n) holds A * 2^-scale. The function destroys this matrix.
//
// A check with a probe vector detects a wrong decomposition that the solver does not report. On success, *x points to
// X, an n x n matrix in the workspace. X is exactly symmetric, and may contain NaN or infinities. If
// spec.relative_epsilon is above 0, X is the root of A * 2^-scale instead of A, and the caller multiplies X by
// 2^(scale * exponent).
template <typename Root>
RootOutcome EigenRoot(const RootSpec& spec, Rung rung, EigenDriver driver, int64_t n, int scale,
                      const RootWorkspace<Root>& workspace, Root** x);

// Computes the root of a diagonal matrix, such as any 1 x 1 matrix, element by element: (a_ii + epsilon)^exponent. With
// spec.pseudo_inverse, the element is a_ii^exponent instead, or 0 if a_ii counts as 0. spec.clamp applies only if the
// result without the clamp is not finite. If spec.relative_epsilon is above 0, the result is the root of A * 2^-scale,
// as for EigenRoot(). Otherwise scale must be 0.
template <typename Real, typename Root>
RootOutcome DiagonalRoot(const RootSpec& spec, const SymmetricView<Real>& matrix, int scale,
                         const RootWorkspace<Root>& workspace, Root** x);

}  // namespace shampoo

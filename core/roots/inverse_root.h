// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/config/settings.h"
#include "core/roots/root.h"

namespace shampoo {

struct RootResult {
  RootOutcome outcome;
  // The largest magnitude in (A + s I) X^p - E, where A is the matrix `a` of InverseRoot(), X is the root `x`, s is
  // outcome.shift, and p is numerator / (denominator * exponent_multiplier). E is the identity I or, with
  // pseudo_inverse, the projector on the span of the eigenvectors of X whose eigenvalues do not count as 0. The
  // residual is NaN if X^p or E cannot be computed, and 0 if exponent_multiplier is 0.
  double residual = 0;
};

// Computes X = (A + s I)^(-exponent_multiplier * denominator / numerator) for one n x n matrix in host memory, as the
// optimizer does for a factor matrix. See RootResult for the symbols. s includes epsilon. Unlike the optimizer, this
// function ignores the key trace_scaling, and does not check the result of a coupled iteration that stops at
// root_max_iterations with a finite error. `a` is row-major, and its lower triangle is read. Allocates its own
// workspace. On failure `x` is unchanged.
template <typename Real>
Status InverseRoot(const Settings& settings, int64_t numerator, int64_t denominator, int64_t n, const Real* a, Real* x,
                   RootResult* result);

}  // namespace shampoo

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
  // The largest magnitude in (A + s I) X^p - I, where s is outcome.shift and p is numerator / (denominator *
  // exponent_multiplier). With pseudo_inverse, I is replaced by the projector on the directions that are kept. The
  // residual is NaN if X^p cannot be computed.
  double residual = 0;
};

// Computes x = A^(-exponent_multiplier * denominator / numerator) for one n x n matrix in host memory, as the optimizer
// does for a factor matrix, which includes adding epsilon to the eigenvalues. Unlike the optimizer, this function
// ignores the key trace_scaling, and does not check the result of a coupled iteration that stops at root_max_iterations
// with a finite error. `a` is row-major, and its lower triangle is read. Allocates its own workspace. On failure x is
// unchanged.
template <typename Real>
Status InverseRoot(const Settings& settings, int64_t numerator, int64_t denominator, int64_t n, const Real* a, Real* x,
                   RootResult* result);

}  // namespace shampoo

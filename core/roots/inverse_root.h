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
  // max |(A + shift I) X^(-1 / exponent) - I|; with pseudo_inverse the projector on what is kept takes the place of I.
  // NaN: X has no such power.
  double residual = 0;
};

// x = A^(-exponent_multiplier * denominator / numerator) for one n x n matrix in host memory (row-major, the lower
// triangle is read), with workspace of its own: the computation that the optimizer makes for a factor. On failure x is
// untouched.
template <typename Real>
Status InverseRoot(const Settings& settings, int64_t numerator, int64_t denominator, int64_t n, const Real* a, Real* x,
                   RootResult* result);

}  // namespace shampoo

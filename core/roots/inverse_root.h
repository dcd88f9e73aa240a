// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/config/settings.h"
#include "core/roots/eigen.h"

namespace shampoo {

struct RootRequest {
  int64_t n = 0;
  int64_t numerator = 1;  // root p / q
  int64_t denominator = 1;
  double epsilon = 0;
  double exponent_multiplier = 1;
};

struct RootResult {
  RootMethod method = RootMethod::kEigen;
  double residual = 0;  // max |(A + shift I) X^(numerator / (denominator * exponent_multiplier)) - I|
};

// x = (a + epsilon I)^(-exponent_multiplier * denominator / numerator) for one n x n matrix in host memory (row-major,
// the lower triangle is read), with workspace of its own: the computation that the optimizer makes for a factor.
// On failure x is untouched.
template <typename Real>
Status InverseRoot(const RootRequest& request, const Real* a, Real* x, RootResult* result);

}  // namespace shampoo

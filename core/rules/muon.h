// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/host_device.h"
#include "core/config/settings.h"

// The rules of method muon (arXiv 2502.16982), for both backends.
namespace shampoo {

// Returns the coefficients of a step of the Newton-Schulz iteration, counted from 0.
constexpr const NsCoefficients::Entry& EntryOf(const NsCoefficients& coefficients, int64_t step) {
  return coefficients.entries[step < coefficients.count ? step : coefficients.count - 1];
}

// Returns the exponent of the power of two by which a matrix is divided before the iteration, so that its largest
// magnitude is in [1, 2). Such a division rounds nothing, so the result does not depend on the scale of gradients.
// largest: not 0.
SHAMPOO_HD inline int ScaleExponent(double largest) {
  const bool is_finite = largest - largest == 0;
  return is_finite ? std::ilogb(largest) : 0;
}

// Returns whether each mean of second_moment row or short is taken over the elements of one output. matrix_rows: the
// number of outputs.
constexpr bool MeansAreOfOutputs(DirectionMoment kind, int64_t matrix_rows, int64_t matrix_columns) {
  return kind == DirectionMoment::kRow || matrix_rows >= matrix_columns;
}

// Returns an element of the direction divided by `divisor`, or 0 if the divisor is 0. divisor: epsilon plus the square
// root of the second moment.
template <typename Real>
SHAMPOO_HD Real DividedByMoment(Real d, Real divisor) {
  return divisor == 0 ? Real{0} : d / divisor;
}

}  // namespace shampoo

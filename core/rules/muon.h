// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/host_device.h"
#include "core/config/settings.h"

// The rules of method muon (arXiv 2502.16982), for both backends.
namespace shampoo {

// Returns the coefficients of step number `step` of the Newton-Schulz iteration, counted from 0. Steps after the last
// entry use the last entry.
constexpr const NsCoefficients::Entry& EntryOf(const NsCoefficients& coefficients, int64_t step) {
  return coefficients.entries[step < coefficients.count ? step : coefficients.count - 1];
}

// If the key `orthogonalization` is `exact`, singular values below this multiple of the Frobenius norm count as 0 on
// the CPU, and all others become 1. On a device, the resulting singular values increase from 0 to 1 near this
// multiple (ExactEntryOf).
inline constexpr double kLeastSingularValue = 0x1p-39;

// If the key `orthogonalization` is `exact`, a device orthogonalizes a matrix of Frobenius norm 1 in float64 by these
// steps, in this order:
//   - lifting: each step multiplies small singular values by up to 3.85, and maps [0.09, 1] to [0.33, 0.99]. The
//     polynomial is a minimax polynomial on [0.09, 1]. Its maximum is 0.99. Rounding errors therefore cannot bring a
//     singular value above 1, where the polynomial would amplify it. No large singular value becomes small, so the
//     iteration is as accurate as a singular value decomposition (Nakatsukasa and Higham, SIAM J. Matrix Anal. Appl.
//     33, 2012).
//   - converging: all four steps together map singular values in [0.33, 1] to nearly 1.
//   - sharpening: each step brings values above 0.82 nearer to 1, and maps a small value s to about 2.5 s^3, so that
//     rounding errors in the null space vanish.
// A singular value s becomes 1 up to rounding errors if s >= 2^-37, more than 0.99 if s >= 2^-38, and less than 2e-5 if
// s < 2^-41.
inline constexpr int64_t kLiftingSteps = 18;
inline constexpr int64_t kConvergingSteps = 4;
inline constexpr int64_t kSharpeningSteps = 2;
inline constexpr int64_t kExactSteps = kLiftingSteps + kConvergingSteps + kSharpeningSteps;
constexpr NsCoefficients::Entry ExactEntryOf(int64_t step) {
  if (step < kLiftingSteps) return {3.85, -9.72, 6.86};
  if (step < kLiftingSteps + kConvergingSteps) return {15.0 / 8, -10.0 / 8, 3.0 / 8};
  return {0, 5.0 / 2, -3.0 / 2};
}

// Returns the exponent of the power of two by which a matrix is divided before the iteration. After the division, the
// largest magnitude of an element is in [1, 2). The division is exact except for elements that become subnormal, so the
// orthogonalized matrix does not depend on the scale of gradients. largest: the largest magnitude of an element before
// the division, which must not be 0. If `largest` is infinite or NaN, the exponent is 0.
SHAMPOO_HD inline int ScaleExponent(double largest) {
  const bool is_finite = largest - largest == 0;
  return is_finite ? std::ilogb(largest) : 0;
}

// If the key second_moment is `row` or `short`, the second moment consists of means. Returns true if each mean is over
// the weights of one output of the layer, and false if each mean is over the weights of one input. matrix_rows: the
// number of outputs. matrix_columns: the number of inputs.
constexpr bool MeansAreOfOutputs(DirectionMoment kind, int64_t matrix_rows, int64_t matrix_columns) {
  return kind == DirectionMoment::kRow || matrix_rows >= matrix_columns;
}

// Returns d / divisor, or 0 if the divisor is 0. d: an element of the direction. divisor: epsilon plus the square root
// of the second moment.
template <typename Real>
SHAMPOO_HD Real DividedByMoment(Real d, Real divisor) {
  return divisor == 0 ? Real{0} : d / divisor;
}

}  // namespace shampoo

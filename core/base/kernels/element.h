// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/host_device.h"

#if defined(__CUDACC__)
#include <cmath>
#endif

// The arithmetic of a step on one element, in the computation dtype (Real). The loops of core/base/kernels and the
// kernels of the CUDA plugin call these functions. In host code, this file includes no header of the standard library
// (loops.h gives the reason). Every operation is rounded separately, so all loops compute bit-identical results.
//
// The symbols (docs/concepts.md): G gradient, V second moment, E moving average of G, H filtered gradient, D direction
// of an elementwise method or of grafting, P direction of the step, M momentum, W parameter, U update.
namespace shampoo {

// The scalars with which a step computes H and D from G, rounded to the computation dtype.
template <typename Real>
struct FilterScalars {
  Real moment_decay, moment_weight;  // V <- moment_decay * V + moment_weight * G * G
  Real filter_decay, filter_weight;  // E <- filter_decay * E + filter_weight * G
  // H = (ahead_decay * E + ahead_weight * G) / filter_correction, with E before the step
  Real ahead_decay, ahead_weight;
  Real filter_correction;
  Real moment_correction;  // D = H / (sqrt(V / moment_correction) + moment_epsilon), or 0 if this divisor is 0
  Real moment_epsilon;
};

// The scalars with which a step computes U from P, rounded to the computation dtype.
template <typename Real>
struct ApplyScalars {
  Real down, up;         // P = p * down * up, where p is the argument of ApplyElement()
  Real decay;            // decay * W is added to P, unless decay is 0
  Real momentum;         // if there is an M: M <- momentum * M + P
  Real momentum_weight;  // if there is an M, P is first multiplied by this number
  Real lr;
  Real shrinkage;  // shrinkage * W is subtracted from U, unless shrinkage is 0
  bool nesterov;
  bool cautious;  // cautious weight decay; see Decays()
};

// The result of ApplyElement().
template <typename Real>
struct AppliedElement {
  Real moved;   // the new M; 0 without momentum
  Real update;  // U
  Real value;   // W + U
};

SHAMPOO_HD_ELEMENT float SquareRootOf(float x) {
#if defined(__CUDACC__)
  return sqrtf(x);
#else
  return __builtin_sqrtf(x);
#endif
}

SHAMPOO_HD_ELEMENT double SquareRootOf(double x) {
#if defined(__CUDACC__)
  return sqrt(x);
#else
  return __builtin_sqrt(x);
#endif
}

// Returns an element of G: scale * gradient or, with coupled weight decay, scale * gradient + decay * W.
template <typename Real>
SHAMPOO_HD_ELEMENT Real ScaledGradient(Real scale, Real gradient) {
  return scale * gradient;
}
template <typename Real>
SHAMPOO_HD_ELEMENT Real ScaledGradient(Real scale, Real gradient, Real decay, Real w) {
  return scale * gradient + decay * w;
}

// Returns the new element of a moving average or sum.
template <typename Real>
SHAMPOO_HD_ELEMENT Real NextAverage(Real decay, Real average, Real weight, Real term) {
  return decay * average + weight * term;
}

// Returns the new E.
template <typename Real>
SHAMPOO_HD_ELEMENT Real NextFiltered(const FilterScalars<Real>& s, Real e, Real g) {
  return NextAverage(s.filter_decay, e, s.filter_weight, g);
}

// Returns H, computed from E before the step. If ahead_decay and ahead_weight are equal to filter_decay and
// filter_weight, H is the new E divided by filter_correction.
template <typename Real>
SHAMPOO_HD_ELEMENT Real FilteredGradient(const FilterScalars<Real>& s, Real e, Real g) {
  return NextAverage(s.ahead_decay, e, s.ahead_weight, g) / s.filter_correction;
}

// Returns the new V.
template <typename Real>
SHAMPOO_HD_ELEMENT Real NextMoment(const FilterScalars<Real>& s, Real v, Real g) {
  return NextAverage(s.moment_decay, v, s.moment_weight, g * g);
}

// Returns D, computed from H and the new V. D is 0 if the divisor is 0.
template <typename Real>
SHAMPOO_HD_ELEMENT Real MomentDirection(const FilterScalars<Real>& s, Real h, Real v) {
  const Real divisor = SquareRootOf(v / s.moment_correction) + s.moment_epsilon;
  // The two conditions select the operands of the division. If one condition selected between 0 and the quotient, a
  // compiler would branch around the division, and loops would not vectorize.
  return (divisor == 0 ? Real{0} : h) / (divisor == 0 ? Real{1} : divisor);
}

// Returns 1 / (sqrt(l) + epsilon) for an element of a tensor that is rotated into the eigenbases. For each dim, the
// index of the element selects an eigenvalue of the dim's factor matrix. l is the product of these eigenvalues.
//   a  1 / sqrt(l)
template <typename Real>
SHAMPOO_HD_ELEMENT Real DampedScale(Real a, Real epsilon) {
  return a / (1 + a * epsilon);
}

// Returns the sign of an element: 1, -1 or, for zeros and NaN, 0.
template <typename Real>
SHAMPOO_HD_ELEMENT Real SignOf(Real x) {
  return Real(x > 0) - Real(x < 0);
}

// Returns whether weight decay is applied to an element of the parameter. With cautious weight decay (arXiv
// 2510.12402), an element does not decay if P and W have opposite signs, because the step then increases the magnitude
// of W. The signs are multiplied instead of P and W, because a product of P and W may underflow.
template <typename Real>
SHAMPOO_HD_ELEMENT bool Decays(bool cautious, Real p, Real w) {
  // This code has no branch, so that loops vectorize.
  const Real lowest = cautious ? Real{0} : Real{-1};
  return SignOf(p) * SignOf(w) >= lowest;
}

// Returns the new M, U and W + U. p: an element of P before the multiplication by `down` and `up`.
template <bool kMomentum, typename Real>
SHAMPOO_HD_ELEMENT AppliedElement<Real> ApplyElement(const ApplyScalars<Real>& s, Real p, Real w, Real m) {
  Real direction = p * s.down * s.up;
  // If `decay` or `shrinkage` is 0, its product with W is left out: W may be infinite, and 0 times infinity is NaN.
  const bool decays = Decays(s.cautious, direction, w);
  direction = (s.decay != 0) & decays ? direction + s.decay * w : direction;
  Real moved = 0;
  if constexpr (kMomentum) {
    direction = s.momentum_weight * direction;
    moved = s.momentum * m + direction;
    direction = s.nesterov ? direction + s.momentum * moved : moved;
  }
  Real update = direction * -s.lr;
  update = (s.shrinkage != 0) & decays ? update - s.shrinkage * w : update;
  return {moved, update, w + update};
}

}  // namespace shampoo

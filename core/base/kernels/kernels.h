// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/kernels/element.h"

namespace shampoo {

// The inner loops of a step on the CPU. They are compiled once for each instruction set. The compiled variants are
// kBaselineKernels, kAvx2Kernels and kAvx512Kernels. BestKernels() selects a variant at its first call. All variants
// compute bit-identical results: no multiplication is fused with an addition, and each sum is computed in a fixed
// number of lanes (partial sums). The exception is TridiagonalKernels::reduce, which only the variant for AVX-512 has.
// core/base/kernels/element.h has the arithmetic of one element and the meaning of the symbols.

template <typename Real>
struct KernelsOf {
  // Updates V and E with G, and computes H and D.
  //   v     V; nullptr if the block has no V
  //   e     E; nullptr if the block has no E
  //   h     receives H; not used if e is nullptr, because H then equals G
  //   d     receives D; not used if v is nullptr, because D then equals H
  void (*filter)(const FilterScalars<Real>& s, const Real* g, Real* v, Real* e, Real* h, Real* d, int64_t n);
  // Computes the update from P, and updates M. `update` or `value` may be the same array as w.
  //   p       P before the multiplication by `down` and `up`
  //   m       M; nullptr if there is no momentum
  //   update  receives U
  //   value   receives W + U
  void (*apply)(const ApplyScalars<Real>& s, const Real* p, const Real* w, Real* m, Real* update, Real* value,
                int64_t n);
  double (*sum_of_squares)(const Real* values, int64_t n);
  // target <- scale * gradient + decay * w. If w is nullptr, target <- scale * gradient.
  void (*load)(Real scale, const Real* gradient, Real decay, const Real* w, Real* target, int64_t n);
  // row <- decay * row + weight * g
  void (*accumulate)(Real decay, Real* row, Real weight, const Real* g, int64_t n);
  // Returns the largest element that V would have after an update with G, or 0 if n is 0. Does not change V.
  Real (*largest_next_moment)(const FilterScalars<Real>& s, const Real* g, const Real* v, int64_t n);
  // values <- values * factors
  void (*multiply)(const Real* factors, Real* values, int64_t n);
  // sums <- sums + values * values, in float64
  void (*add_squares)(const Real* values, double* sums, int64_t n);
  // h <- h * a / (1 + a * epsilon), as in DampedScale()
  void (*scale_damped)(const Real* a, Real epsilon, Real* h, int64_t n);
};

// Kernels that approximate the inverse square root of a symmetric tridiagonal matrix T by a weighted sum of inverses
// (T + shift I)^-1 (core/roots/resolvent.h). For each pole of the approximation, the sum has one inverse with its own
// weight and shift.
//   d  the diagonal of T, n elements
//   e  the off-diagonal of T, n - 1 elements
struct TridiagonalKernels {
  static constexpr int kShifts = 16;  // the number of shifts in a call of count_below
  static constexpr int kLanes = 8;    // the number of poles is always a multiple of kLanes
  static constexpr int kMaxPoles = 24;
  static constexpr int kColumns = 32;      // the largest number of columns in a call of grow_resolvents
  static constexpr int kRowMultiple = 16;  // the argument ld of `reduce` is a multiple of kRowMultiple

  // Decomposes A = Q T Q^T, and stores Q in the form of blas::Sytrd. `reduce` is nullptr in variants in
  // which it would be slower than blas::Sytrd.
  //   n     at least 1
  //   a     n rows of ld elements. On entry, the lower triangle contains A. In each row, the elements between the
  //         diagonal and the next column whose index is a multiple of kRowMultiple must be 0. Products of two elements
  //         must be finite.
  //   ld    a multiple of kRowMultiple
  //   tau   n - 1 elements
  //   work  4 * ld elements
  void (*reduce)(float* a, int64_t ld, int64_t n, double* d, double* e, float* tau, float* work);

  // counts[l] <- the number of eigenvalues of T below shifts[l], for every l < kShifts. The function factorizes
  // T - shifts[l] I = L D L^T, and replaces each element of D whose magnitude is below `tiny` by -tiny.
  void (*count_below)(const double* d, const double* e, double tiny, int64_t n, const double* shifts, double* counts);
  // inverses[i * poles + j] <- 1 / D_i, where T + shifts[j] I = U D U^T. D is diagonal, and U is unit upper triangular.
  void (*inverse_pivots)(const double* d, const double* e, int64_t n, const double* shifts, int64_t poles,
                         double* inverses);
  // x <- x + the sum over all l < kLanes of weights[l] (T + shift_l I)^-1 b. The terms belong to kLanes consecutive
  // poles, and shift_l is the shift of term l. b and x have n elements.
  //   inverses  the result of inverse_pivots, starting at the column of the first of these poles
  //   scratch   n * kLanes elements
  void (*add_solution)(const double* e, const double* inverses, int64_t n, int64_t poles, const double* weights,
                       const double* b, double* scratch, double* x);
  // Computes columns [first, first + count) of the weighted inverses R_j = weights[j] (T + shifts[j] I)^-1. count is at
  // most kColumns. Above the diagonal, column k of R_j is a multiple of column k - 1.
  //   corner[j]                    on entry: R_j[first - 1, first - 1], or 0 if first is 0; on return:
  //                                R_j[first + count - 1, first + count - 1]
  //   factors[m * poles + j]       R_j[i, first + m] / R_j[i, first - 1], which is the same for all i < first
  //   growth[j]                    factors[(count - 1) * poles + j], in float64
  //   generators[j * kColumns + i] R_j[first + i, first + count - 1]
  //   sums[m * kColumns + i]       the sum of R_j[first + i, first + m] over all j, for every i <= m
  void (*grow_resolvents)(const double* e, const double* inverses, int64_t first, int64_t count, int64_t poles,
                          const double* weights, double* corner, double* growth, float* factors, double* generators,
                          double* sums);
};

struct Kernels {
  const char* name;
  KernelsOf<float> f32;
  KernelsOf<double> f64;
  void (*widen_f16)(const uint16_t* from, float* to, int64_t n);
  void (*widen_bf16)(const uint16_t* from, float* to, int64_t n);
  void (*narrow_f16)(const float* from, uint16_t* to, int64_t n);
  void (*narrow_bf16)(const float* from, uint16_t* to, int64_t n);
  // Return the largest bit pattern of an element whose sign bit is replaced by 0. These bit patterns are ordered like
  // the magnitudes of the elements. Infinity is above all finite numbers, and NaN is above infinity.
  uint16_t (*largest_u16)(const uint16_t* bits, int64_t n);
  uint32_t (*largest_u32)(const uint32_t* bits, int64_t n);
  uint64_t (*largest_u64)(const uint64_t* bits, int64_t n);
  TridiagonalKernels tridiagonal;

  template <typename Real>
  const KernelsOf<Real>& Of() const {
    if constexpr (sizeof(Real) == 8) {
      return f64;
    } else {
      return f32;
    }
  }
};

const Kernels& FindBestKernels();

// Returns the fastest variant that this processor can run.
inline const Kernels& BestKernels() {
  static const Kernels& best = FindBestKernels();
  return best;
}

// For tests: returns a list of all variants that this processor can run, from the slowest to the fastest. The list ends
// with nullptr.
const Kernels* const* UsableKernels();

extern const Kernels kBaselineKernels;
#ifdef SHAMPOO_X86_KERNELS
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif

}  // namespace shampoo

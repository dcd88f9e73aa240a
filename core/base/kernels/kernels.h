// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/kernels/element.h"

namespace shampoo {

// The inner loops of the elementwise passes, over at most a few hundred elements each. They are compiled once for every
// instruction set below; which one runs is decided when the process first asks. All give the same bits: no product is
// contracted with a sum, and sums have a fixed number of lanes. What they do to an element is in
// core/base/kernels/element.h.

template <typename Real>
struct KernelsOf {
  // v, e: nullptr where there is no such state. h: where H goes, nullptr if it is not wanted or is G itself. d: where D
  // goes, nullptr if it is not wanted; without v it is H.
  void (*filter)(const FilterScalars<Real>& s, const Real* g, Real* v, Real* e, Real* h, Real* d, int64_t n);
  // m: nullptr without momentum. update: where U goes, value: where W + U goes; either may be w.
  void (*apply)(const ApplyScalars<Real>& s, const Real* p, const Real* w, Real* m, Real* update, Real* value,
                int64_t n);
  double (*sum_of_squares)(const Real* values, int64_t n);
  // target <- scale * gradient + decay * w; w: nullptr without decay.
  void (*load)(Real scale, const Real* gradient, Real decay, const Real* w, Real* target, int64_t n);
  // row <- decay * row + weight * g
  void (*accumulate)(Real decay, Real* row, Real weight, const Real* g, int64_t n);
};

// What an inverse square root by shifted inverses of a tridiagonal matrix T computes of them (core/roots/resolvent.h).
// d is the diagonal of T (n elements), e the elements beside the diagonal (n - 1).
struct TridiagonalKernels {
  static constexpr int kShifts = 16;
  static constexpr int kLanes = 8;  // a number of poles is a multiple of it
  static constexpr int kMaxPoles = 24;
  static constexpr int kColumns = 32;
  static constexpr int kRowMultiple = 16;

  // Computes A = Q T Q^T, and leaves Q in the form of blas::Sytrd. nullptr where blas::Sytrd is faster. n is at
  // least 1. a: lower triangle of n rows of ld elements, a multiple of kRowMultiple, with zeros above the diagonal up
  // to the next multiple of kRowMultiple. work: 4 ld elements. No element may be so large that a product of two is not
  // finite.
  void (*reduce)(float* a, int64_t ld, int64_t n, double* d, double* e, float* tau, float* work);

  // counts[l] <- the number of eigenvalues of T below shifts[l], l < kShifts. tiny: magnitude of a pivot that counts
  // as 0.
  void (*count_below)(const double* d, const double* e, double tiny, int64_t n, const double* shifts, double* counts);
  // inverses[i * poles + j] <- 1 / pivot i of T + shifts[j] I = U D U^T, U unit upper triangular.
  void (*inverse_pivots)(const double* d, const double* e, int64_t n, const double* shifts, int64_t poles,
                         double* inverses);
  // x <- x + sum over kLanes poles of weights[l] (T + shift l I)^-1 b, inverses those of the first of these poles.
  // scratch: n * kLanes elements.
  void (*add_solution)(const double* e, const double* inverses, int64_t n, int64_t poles, const double* weights,
                       const double* b, double* scratch, double* x);
  // Columns first to first + count - 1 of the weighted inverses G_j = weights[j] (T + shifts[j] I)^-1, count at most
  // kColumns. Column k is what column k - 1 has above the diagonal, times a ratio:
  //   corner[j]                    G_j[first - 1, first - 1]; afterwards that of the last column. 0 if first is 0.
  //   factors[m * poles + j]       G_j[i, first + m] / G_j[i, first - 1] for every i < first
  //   growth[j]                    the last of these
  //   generators[j * kColumns + i] G_j[first + i, first + count - 1]
  //   sums[m * kColumns + i]       the sum of G_j[first + i, first + m] over all j, for i <= m
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
  // The largest bit pattern without the sign: in the order of the magnitudes, infinity above them and NaN above that.
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

// Those for this processor.
inline const Kernels& BestKernels() {
  static const Kernels& best = FindBestKernels();
  return best;
}

// All that this processor can run, the best last; nullptr ends the list. For tests.
const Kernels* const* UsableKernels();

extern const Kernels kBaselineKernels;
#ifdef SHAMPOO_X86_KERNELS
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif

}  // namespace shampoo

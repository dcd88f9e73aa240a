// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

// The inner loops of the elementwise passes, over at most a few hundred elements each. They are compiled once for every
// instruction set below; which one runs is decided when the process first asks. All give the same bits: no product is
// contracted with a sum, and sums have a fixed number of lanes.

// One step of the filtered gradient and of the grafting method's second moment.
template <typename Real>
struct FilterScalars {
  Real moment_keep, moment_add;  // V <- keep V + add G G
  Real filter_keep, filter_add;  // E <- keep E + add G
  Real filter_correction;        // H = E / correction
  Real moment_correction;        // D = H / (sqrt(V / correction) + epsilon)
  Real grafting_epsilon;
};

template <typename Real>
struct ApplyScalars {
  Real down, up;  // the direction is p * down * up
  Real decay;     // + decay W, where not 0
  Real momentum;
  Real lr;
  bool nesterov;
};

template <typename Real>
struct KernelsOf {
  // v, e: nullptr where there is no such state. h: where H goes, nullptr if it is not wanted or is G itself. d: where D
  // goes, nullptr if it is not wanted; without v it is H.
  void (*filter)(const FilterScalars<Real>& s, const Real* g, Real* v, Real* e, Real* h, Real* d, int64_t n);
  // m: nullptr without momentum. update: where U = -lr P goes, value: where W + U goes; either may be nullptr, and may
  // be w.
  void (*apply)(const ApplyScalars<Real>& s, const Real* p, const Real* w, Real* m, Real* update, Real* value,
                int64_t n);
  double (*sum_of_squares)(const Real* values, int64_t n);
  // target <- scale * gradient + decay * w; w: nullptr without decay.
  void (*load)(Real scale, const Real* gradient, Real decay, const Real* w, Real* target, int64_t n);
  // row <- keep * row + add * g
  void (*accumulate)(Real keep, Real* row, Real add, const Real* g, int64_t n);
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

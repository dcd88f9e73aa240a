// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

// The loops of kernels.h. Each file that includes this header is compiled for its own instruction set. Everything is in
// an unnamed namespace, and no function of the standard library is called. Otherwise the linker could keep a single
// copy of a function for all these files, and the copy may contain instructions that the processor does not have.
#include "core/base/kernels/kernels.h"
#include "core/base/kernels/reduction_loops.h"
#include "core/base/kernels/tridiagonal_loops.h"

namespace shampoo {
namespace {

template <typename Real, bool kMoment, bool kFiltered>
void FilterLoop(const FilterScalars<Real>& s, const Real* g, Real* v, Real* e, Real* h, Real* d, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    Real filtered = g[i];
    if constexpr (kFiltered) {
      filtered = FilteredGradient(s, e[i], g[i]);
      e[i] = NextFiltered(s, e[i], g[i]);
      h[i] = filtered;
    }
    if constexpr (kMoment) {
      const Real moment = NextMoment(s, v[i], g[i]);
      v[i] = moment;
      d[i] = MomentDirection(s, filtered, moment);
    }
  }
}

template <typename Real>
void Filter(const FilterScalars<Real>& s, const Real* g, Real* v, Real* e, Real* h, Real* d, int64_t n) {
  if (v != nullptr && e != nullptr) {
    FilterLoop<Real, true, true>(s, g, v, e, h, d, n);
  } else if (v != nullptr) {
    FilterLoop<Real, true, false>(s, g, v, e, h, d, n);
  } else if (e != nullptr) {
    FilterLoop<Real, false, true>(s, g, v, e, h, d, n);
  }
}

// s is passed by value. If s were passed by reference, the compiler would have to assume that the stores to the arrays
// change s, and would not vectorize the loop.
template <typename Real, bool kMomentum>
void ApplyLoop(ApplyScalars<Real> s, const Real* p, const Real* w, Real* m, Real* update, Real* value, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const Real momentum = kMomentum ? m[i] : Real{0};
    const AppliedElement<Real> applied = ApplyElement<kMomentum>(s, p[i], w[i], momentum);
    if constexpr (kMomentum) m[i] = applied.moved;
    update[i] = applied.update;
    value[i] = applied.value;
  }
}

template <typename Real>
void Apply(const ApplyScalars<Real>& s, const Real* p, const Real* w, Real* m, Real* update, Real* value, int64_t n) {
  if (m != nullptr) {
    ApplyLoop<Real, true>(s, p, w, m, update, value, n);
  } else {
    ApplyLoop<Real, false>(s, p, w, m, update, value, n);
  }
}

template <typename Real>
double SumOfSquares(const Real* values, int64_t n) {
  constexpr int64_t kLanes = 16;
  if (n < kLanes) {  // only a shortcut: the code below would compute the same sum in lane 0
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    return sum;
  }
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = static_cast<double>(values[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (; i < n; ++i) lanes[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

template <typename Real>
void Load(Real scale, const Real* gradient, Real decay, const Real* w, Real* target, int64_t n) {
  if (w == nullptr) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) target[i] = ScaledGradient(scale, gradient[i]);
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) target[i] = ScaledGradient(scale, gradient[i], decay, w[i]);
  }
}

template <typename Real>
void Accumulate(Real decay, Real* row, Real weight, const Real* g, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) row[i] = NextAverage(decay, row[i], weight, g[i]);
}

template <typename Real>
Real LargestNextMoment(const FilterScalars<Real>& s, const Real* g, const Real* v, int64_t n) {
  constexpr int64_t kLanes = 16;
  Real lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const Real next = NextMoment(s, v[i + lane], g[i + lane]);
      lanes[lane] = next > lanes[lane] ? next : lanes[lane];
    }
  }
  for (; i < n; ++i) {
    const Real next = NextMoment(s, v[i], g[i]);
    lanes[0] = next > lanes[0] ? next : lanes[0];
  }
  Real largest = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) largest = lanes[lane] > largest ? lanes[lane] : largest;
  return largest;
}

template <typename Real>
void Multiply(const Real* factors, Real* values, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) values[i] *= factors[i];
}

template <typename Real>
void AddSquares(const Real* values, double* sums, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
}

template <typename Real>
void ScaleDamped(const Real* a, Real epsilon, Real* h, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) h[i] *= DampedScale(a[i], epsilon);
}

inline uint32_t BitsOf(float value) { return __builtin_bit_cast(uint32_t, value); }
inline float FloatOf(uint32_t bits) { return __builtin_bit_cast(float, bits); }

// The following conversions compute the same results as core/base/convert.h. They have no branches, so that loops
// vectorize.
void WidenF16(const uint16_t* from, float* to, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t sign = static_cast<uint32_t>(from[i] & 0x8000u) << 16;
    const uint32_t magnitude = from[i] & 0x7fffu;
    const uint32_t normal = (magnitude << 13) + 0x38000000u;
    const uint32_t beyond = 0x7f800000u | (magnitude & 0x3ffu) << 13;
    // The value of zero or a subnormal is magnitude * 2^-24, which is exact in float.
    const uint32_t tiny = BitsOf(static_cast<float>(static_cast<int32_t>(magnitude)) * 5.9604644775390625e-8f);
    const uint32_t finite = magnitude < 0x0400u ? tiny : normal;
    to[i] = FloatOf((magnitude >= 0x7c00u ? beyond : finite) | sign);
  }
}

void WidenBf16(const uint16_t* from, float* to, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = FloatOf(static_cast<uint32_t>(from[i]) << 16);
}

void NarrowF16(const float* from, uint16_t* to, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = BitsOf(from[i]);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t rounded = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
    // If the result is subnormal, adding 0.5 rounds to a multiple of 2^-24, as in FloatToHalf().
    const uint32_t tiny = BitsOf(FloatOf(magnitude < 0x38800000u ? magnitude : 0u) + 0.5f) - 0x3f000000u;
    uint32_t half = magnitude < 0x38800000u ? tiny : rounded;
    half = magnitude >= 0x477ff000u ? 0x7c00u : half;  // 65520 and above round to infinity
    half = magnitude > 0x7f800000u ? 0x7e00u : half;   // NaN
    to[i] = static_cast<uint16_t>(half | ((bits >> 16) & 0x8000u));
  }
}

void NarrowBf16(const float* from, uint16_t* to, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = BitsOf(from[i]);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet = (bits >> 16) | 0x40u;
    to[i] = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
}

template <typename Bits>
Bits LargestPattern(const Bits* bits, int64_t n) {
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) / 2;
  // The array is divided into four parts, and the loop reads one cache line of each part in turn. Reading a single
  // part at a time does not reach the bandwidth of the memory.
  constexpr int64_t kParts = 4;
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(Bits));
  const int64_t part = n / kParts / kLine * kLine;
  Bits lanes[kLine] = {};
  for (int64_t i = 0; i < part; i += kLine) {
    for (int64_t k = 0; k < kParts; ++k) {
      const Bits* const line = bits + k * part + i;
#pragma GCC ivdep
      for (int64_t lane = 0; lane < kLine; ++lane) {
        const Bits magnitude = static_cast<Bits>(line[lane] & kMagnitude);
        lanes[lane] = magnitude > lanes[lane] ? magnitude : lanes[lane];
      }
    }
  }
  Bits largest = 0;
  for (int64_t lane = 0; lane < kLine; ++lane) largest = lanes[lane] > largest ? lanes[lane] : largest;
#pragma GCC ivdep
  for (int64_t i = kParts * part; i < n; ++i) {
    const Bits magnitude = static_cast<Bits>(bits[i] & kMagnitude);
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

template <typename Real>
constexpr KernelsOf<Real> MakeKernelsOf() {
  return {Filter<Real>,   Apply<Real>,      SumOfSquares<Real>, Load<Real>, Accumulate<Real>, LargestNextMoment<Real>,
          Multiply<Real>, AddSquares<Real>, ScaleDamped<Real>};
}

constexpr Kernels MakeKernels(const char* name) {
  return {name,
          MakeKernelsOf<float>(),
          MakeKernelsOf<double>(),
          WidenF16,
          WidenBf16,
          NarrowF16,
          NarrowBf16,
          LargestPattern<uint16_t>,
          LargestPattern<uint32_t>,
          LargestPattern<uint64_t>,
          {kReduce, CountBelow, InversePivots, AddSolution, GrowResolvents}};
}

}  // namespace
}  // namespace shampoo

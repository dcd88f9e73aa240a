// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/base/dtype.h"

namespace shampoo {

inline float Bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Round to nearest, ties to even; a NaN stays one (its payload's top bit is set, so that rounding cannot make
// infinity).
inline uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(nan ? (bits >> 16) | 0x40u : rounded);
}

float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);    // round to nearest, ties to even; beyond 65504 (rounded): infinity
uint16_t DoubleToHalf(double value);  // one rounding, not by way of float
uint16_t DoubleToBf16(double value);  // one rounding, not by way of float

// n elements of `from` (of type dtype) as Real, one by one; a float64 that goes to float32 is rounded to nearest.
template <typename Real>
void Widen(const void* from, Dtype dtype, Real* to, int64_t n);
// The other way: each element rounded once to dtype.
template <typename Real>
void Narrow(const Real* from, void* to, Dtype dtype, int64_t n);

template <typename Real>
constexpr Dtype DtypeOf();
template <>
constexpr Dtype DtypeOf<float>() {
  return Dtype::kF32;
}
template <>
constexpr Dtype DtypeOf<double>() {
  return Dtype::kF64;
}

inline const void* ElementAt(const void* base, Dtype dtype, int64_t index) {
  return static_cast<const char*>(base) + index * static_cast<int64_t>(SizeOf(dtype));
}
inline void* ElementAt(void* base, Dtype dtype, int64_t index) {
  return static_cast<char*>(base) + index * static_cast<int64_t>(SizeOf(dtype));
}

}  // namespace shampoo

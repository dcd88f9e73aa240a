// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/base/dtype.h"

namespace shampoo {

inline float Bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Rounds to nearest, ties to even. For a NaN, drops the lower 16 bits and sets the top bit of the fraction. Without
// that bit, the result could be infinity.
inline uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(nan ? (bits >> 16) | 0x40u : rounded);
}

float HalfToFloat(uint16_t bits);
// Rounds to nearest, ties to even. A number that rounds to more than 65504 becomes infinity.
uint16_t FloatToHalf(float value);
// DoubleToHalf() and DoubleToBf16() round once, to nearest, ties to even.
uint16_t DoubleToHalf(double value);
uint16_t DoubleToBf16(double value);

// Converts n elements of type dtype to Real. A float64 that becomes a float32 is rounded to nearest.
template <typename Real>
void Widen(const void* from, Dtype dtype, Real* to, int64_t n);
// Converts n elements to dtype. Each element is rounded once.
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

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/convert.h"

#include <cmath>

#include "core/base/kernels/kernels.h"

namespace shampoo {
namespace {

// Rounds a double to float "to odd" (Boldo and Melquiond, "When double rounding is odd", 2005). If the result is then
// rounded to float16 or bfloat16, the final result is the same as if the double were rounded once. The reason is that
// the significand of a float (24 bits) is at least two bits longer than the significand of float16 (11 bits) and of
// bfloat16 (8 bits).
float RoundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || !std::isfinite(value)) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  // Round toward zero, then set the last bit, because the result is inexact.
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

}  // namespace

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude < 0x0400u) {  // zero or subnormal: the value is magnitude * 2^-24, which is exact in float
    const float tiny = static_cast<float>(magnitude) * 5.9604644775390625e-8f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(tiny) | sign);
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {
    // The result must be a multiple of 2^-24, the smallest subnormal of float16. Floats between 0.5 and 1 are multiples
    // of 2^-24, so adding 0.5 rounds the value to such a multiple (to nearest, ties to even).
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

uint16_t DoubleToHalf(double value) { return FloatToHalf(RoundToOdd(value)); }
uint16_t DoubleToBf16(double value) { return FloatToBf16(RoundToOdd(value)); }

template <typename Real>
void Widen(const void* from, Dtype dtype, Real* to, int64_t n) {
  switch (dtype) {
    case Dtype::kF32: {
      const auto* source = static_cast<const float*>(from);
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Real>(source[i]);
      break;
    }
    case Dtype::kF64: {
      const auto* source = static_cast<const double*>(from);
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Real>(source[i]);
      break;
    }
    case Dtype::kF16: {
      const auto* source = static_cast<const uint16_t*>(from);
      if constexpr (sizeof(Real) == 4) {
        BestKernels().widen_f16(source, to, n);
      } else {
        for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Real>(HalfToFloat(source[i]));
      }
      break;
    }
    case Dtype::kBf16: {
      const auto* source = static_cast<const uint16_t*>(from);
      if constexpr (sizeof(Real) == 4) {
        BestKernels().widen_bf16(source, to, n);
      } else {
        for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Real>(Bf16ToFloat(source[i]));
      }
      break;
    }
    default:
      break;
  }
}

template <typename Real>
void Narrow(const Real* from, void* to, Dtype dtype, int64_t n) {
  switch (dtype) {
    case Dtype::kF32: {
      auto* target = static_cast<float*>(to);
      for (int64_t i = 0; i < n; ++i) target[i] = static_cast<float>(from[i]);
      break;
    }
    case Dtype::kF64: {
      auto* target = static_cast<double*>(to);
      for (int64_t i = 0; i < n; ++i) target[i] = static_cast<double>(from[i]);
      break;
    }
    case Dtype::kF16: {
      auto* target = static_cast<uint16_t*>(to);
      if constexpr (sizeof(Real) == 4) {
        BestKernels().narrow_f16(from, target, n);
      } else {
        for (int64_t i = 0; i < n; ++i) target[i] = DoubleToHalf(from[i]);
      }
      break;
    }
    case Dtype::kBf16: {
      auto* target = static_cast<uint16_t*>(to);
      if constexpr (sizeof(Real) == 4) {
        BestKernels().narrow_bf16(from, target, n);
      } else {
        for (int64_t i = 0; i < n; ++i) target[i] = DoubleToBf16(from[i]);
      }
      break;
    }
    default:
      break;
  }
}

template void Widen<float>(const void*, Dtype, float*, int64_t);
template void Widen<double>(const void*, Dtype, double*, int64_t);
template void Narrow<float>(const float*, void*, Dtype, int64_t);
template void Narrow<double>(const double*, void*, Dtype, int64_t);

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/magnitude.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/backend/cpu/stretch.h"
#include "core/plan/runs.h"

namespace shampoo {
namespace {

// Without the sign bit the patterns of a float type are in the order of their values, infinity above all numbers and
// NaN above infinity: one integer maximum answers all questions at once, and vectorizes.
template <typename Bits>
Bits LargestPattern(const void* data, int64_t n) {
  const auto* const bits = static_cast<const Bits*>(data);
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max() / 2;
  Bits largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, static_cast<Bits>(bits[i] & kMagnitude));
  return largest;
}

}  // namespace

double LargestMagnitude(const void* data, Dtype dtype, int64_t n) {
  switch (dtype) {
    case Dtype::kF32:
      return static_cast<double>(std::bit_cast<float>(LargestPattern<uint32_t>(data, n)));
    case Dtype::kF64:
      return std::bit_cast<double>(LargestPattern<uint64_t>(data, n));
    case Dtype::kF16:
      return static_cast<double>(HalfToFloat(LargestPattern<uint16_t>(data, n)));
    case Dtype::kBf16:
      return static_cast<double>(Bf16ToFloat(LargestPattern<uint16_t>(data, n)));
    default:
      return 0;
  }
}

int64_t FindNonFinite(const void* data, Dtype dtype, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    double value = 0;
    Widen(ElementAt(data, dtype, i), dtype, &value, 1);
    if (!std::isfinite(value)) return i;
  }
  return -1;
}

double SquaredNorm(const Block& block, const void* data, Dtype dtype) {
  Operand<double> operand(data, dtype);
  double sum = 0;
  ForEachRun(block.shape, block.stride, [&](int64_t from, int64_t, int64_t length) {
    ForEachStretch(length, [&](int64_t first, int64_t n) {
      sum += SumOfSquares(operand.Read(block.offset + from + first, n), n);
    });
  });
  return sum;
}

}  // namespace shampoo

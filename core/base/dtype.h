// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shampoo {

// The constants of the public header, such as SHAMPOO_F32, have the same values.
enum class Dtype : int32_t { kF32 = 1, kF64 = 2, kF16 = 3, kBf16 = 4, kI32 = 5, kI64 = 6 };

constexpr size_t SizeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
    case Dtype::kBf16:
      return 2;
    case Dtype::kF32:
    case Dtype::kI32:
      return 4;
    case Dtype::kF64:
    case Dtype::kI64:
      return 8;
  }
  return 0;
}

const char* NameOf(Dtype dtype);  // "f32", "f64", "f16", "bf16", "i32", "i64"
// The next two functions return false, and leave *dtype unchanged, if no floating-point dtype has this name or value.
bool FloatDtypeFromName(std::string_view name, Dtype* dtype);
bool FloatDtypeFromInt(int32_t value, Dtype* dtype);

// Returns the largest finite value of a floating-point dtype, such as 65504 for f16.
constexpr double LargestFinite(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return 65504.0;
    case Dtype::kBf16:
      return 3.3895313892515355e38;
    case Dtype::kF32:
      return FLT_MAX;
    default:
      return DBL_MAX;
  }
}

// Returns the distance from 1 to the next larger number of a floating-point dtype, such as 2^-23 for f32.
constexpr double MachineEpsilon(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return 1.0 / 1024;
    case Dtype::kBf16:
      return 1.0 / 128;
    case Dtype::kF32:
      return FLT_EPSILON;
    default:
      return DBL_EPSILON;
  }
}

// Returns the smallest positive normal number of a computation dtype, which is kF32 or kF64.
constexpr double SmallestNormal(Dtype computation) { return computation == Dtype::kF64 ? DBL_MIN : FLT_MIN; }

enum class ScalarFit { kFits, kTooLarge, kUnderflows };

// Returns whether a number can be used in the arithmetic of a computation dtype. may_underflow: whether a number that
// is not 0 may round to 0. Pass true for a learning rate, and false for a gradient scale or grafting_epsilon.
constexpr ScalarFit FitOfScalar(double number, Dtype computation, bool may_underflow) {
  const double magnitude = number < 0 ? -number : number;
  if (!(magnitude <= LargestFinite(computation))) return ScalarFit::kTooLarge;
  const bool is_narrow = computation == Dtype::kF32;
  if (is_narrow && !may_underflow && number != 0 && static_cast<float>(number) == 0) return ScalarFit::kUnderflows;
  return ScalarFit::kFits;
}

}  // namespace shampoo

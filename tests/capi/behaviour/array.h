// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <shampoo/shampoo.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace shampoo_test {

inline constexpr int32_t kFloatDtypes[] = {SHAMPOO_F32, SHAMPOO_F64, SHAMPOO_F16, SHAMPOO_BF16};

inline size_t SizeOfDtype(int32_t dtype) {
  return dtype == SHAMPOO_F64 || dtype == SHAMPOO_I64 ? 8 : dtype == SHAMPOO_F32 || dtype == SHAMPOO_I32 ? 4 : 2;
}

// A floating-point format. `precision` is the number of bits of the significand, including the hidden bit.
// `least_exponent` is the exponent of the smallest normal number. `largest` is the largest finite number; for float64,
// FormatOf() sets `largest` to 0, because Rounded() does not read it.
struct Format {
  int precision;
  int least_exponent;
  double largest;
};

inline Format FormatOf(int32_t dtype) {
  switch (dtype) {
    case SHAMPOO_F32:
      return {24, -126, std::ldexp(2.0 - std::ldexp(1, -23), 127)};
    case SHAMPOO_F16:
      return {11, -14, 65504};
    case SHAMPOO_BF16:
      return {8, -126, std::ldexp(2.0 - std::ldexp(1, -7), 127)};
    default:
      return {53, -1022, 0};
  }
}

// Returns `value` rounded to the nearest number of the dtype; ties are rounded to even.
inline double Rounded(double value, int32_t dtype) {
  if (dtype == SHAMPOO_F64 || value == 0 || !std::isfinite(value)) return value;
  const Format format = FormatOf(dtype);
  // The distance between neighboring numbers of the dtype near `value`.
  const double quantum = std::ldexp(1, std::max(std::ilogb(value), format.least_exponent) - format.precision + 1);
  const double rounded = std::nearbyint(value / quantum) * quantum;
  return std::fabs(rounded) > format.largest ? std::copysign(INFINITY, value) : rounded;
}

// An array of any dtype. The library accesses the bytes of the array. Tests access its elements as float64.
class Array {
 public:
  Array() = default;
  Array(int32_t dtype, size_t elements) : dtype_(dtype), bytes_(elements * SizeOfDtype(dtype)) {}

  size_t size() const { return bytes_.size() / SizeOfDtype(dtype_); }
  int32_t dtype() const { return dtype_; }
  char* data() { return bytes_.data(); }
  const std::vector<char>& bytes() const { return bytes_; }
  bool operator==(const Array& other) const { return dtype_ == other.dtype_ && bytes_ == other.bytes_; }

  double Get(size_t i) const {
    if (dtype_ == SHAMPOO_F64) return Load<double>(i);
    if (dtype_ == SHAMPOO_F32) return static_cast<double>(Load<float>(i));
    if (dtype_ == SHAMPOO_I32) return Load<int32_t>(i);
    if (dtype_ == SHAMPOO_I64) return static_cast<double>(Load<int64_t>(i));
    const uint16_t bits = Load<uint16_t>(i);
    const int fraction_bits = FormatOf(dtype_).precision - 1;
    const int fraction = bits & ((1 << fraction_bits) - 1);
    const int exponent = (bits & 0x7fff) >> fraction_bits;
    const int top = 0x7fff >> fraction_bits;
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == top) return fraction == 0 ? sign * INFINITY : NAN;
    const int least = FormatOf(dtype_).least_exponent - fraction_bits;
    if (exponent == 0) return sign * std::ldexp(fraction, least);
    return sign * std::ldexp(fraction + (1 << fraction_bits), least + exponent - 1);
  }

  // Rounds the value to the dtype and stores it.
  void Set(size_t i, double value) {
    if (dtype_ == SHAMPOO_F64) return Store(i, value);
    if (dtype_ == SHAMPOO_I32) return Store(i, static_cast<int32_t>(value));
    if (dtype_ == SHAMPOO_I64) return Store(i, static_cast<int64_t>(value));
    const double rounded = Rounded(value, dtype_);
    if (dtype_ == SHAMPOO_F32) return Store(i, static_cast<float>(rounded));
    const int fraction_bits = FormatOf(dtype_).precision - 1;
    const int sign = std::signbit(value) ? 0x8000 : 0;
    const int top = (0x7fff >> fraction_bits) << fraction_bits;
    if (std::isnan(value)) return Store(i, static_cast<uint16_t>(sign | top | 1 << (fraction_bits - 1)));
    if (std::isinf(rounded)) return Store(i, static_cast<uint16_t>(sign | top));
    if (rounded == 0) return Store(i, static_cast<uint16_t>(sign));
    const int least = FormatOf(dtype_).least_exponent;
    const int exponent = std::max(std::ilogb(rounded), least);
    const int units = static_cast<int>(std::ldexp(std::fabs(rounded), fraction_bits - exponent));
    // If the number is normal, `units` includes the hidden bit, which adds 1 to the exponent field.
    Store(i, static_cast<uint16_t>(sign | (((exponent - least) << fraction_bits) + units)));
  }

  void Fill(std::mt19937_64& random) {
    for (size_t i = 0; i < size(); ++i)
      Set(i, static_cast<double>(static_cast<int64_t>(random() % 20001) - 10000) / 4099);
  }

  Array As(int32_t dtype) const {
    Array other(dtype, size());
    for (size_t i = 0; i < size(); ++i) other.Set(i, Get(i));
    return other;
  }
  std::vector<double> Values() const {
    std::vector<double> values;
    for (size_t i = 0; i < size(); ++i) values.push_back(Get(i));
    return values;
  }

 private:
  template <typename Element>
  Element Load(size_t i) const {
    Element element;
    std::memcpy(&element, bytes_.data() + i * sizeof element, sizeof element);
    return element;
  }
  template <typename Element>
  void Store(size_t i, Element element) {
    std::memcpy(bytes_.data() + i * sizeof element, &element, sizeof element);
  }

  int32_t dtype_ = SHAMPOO_F32;
  std::vector<char> bytes_;
};

inline std::vector<double> Scaled(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

// Returns the Euclidean norm.
inline double NormOf(const std::vector<double>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

// Returns the largest absolute difference between corresponding elements.
inline double DistanceOf(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

inline Array ArrayOf(int32_t dtype, const std::vector<double>& values) {
  Array array(dtype, values.size());
  for (size_t i = 0; i < values.size(); ++i) array.Set(i, values[i]);
  return array;
}

}  // namespace shampoo_test

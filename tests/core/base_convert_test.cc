// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/base/convert.h"

namespace shampoo {
namespace {

// Returns all finite values of a 16-bit float type that are not negative, in increasing order. The value at
// index i has the bit pattern i.
template <typename Decode>
std::vector<double> Magnitudes(Decode&& decode, uint16_t infinity) {
  std::vector<double> values;
  for (uint32_t bits = 0; bits < infinity; ++bits)
    values.push_back(static_cast<double>(decode(static_cast<uint16_t>(bits))));
  return values;
}

// Rounds `value` to the nearest number of a 16-bit float type, with ties to even, and returns the bit pattern of this
// number. table: the Magnitudes() of the type. The search shares no bit operations with the conversions that the tests
// check.
uint16_t NearestPattern(const std::vector<double>& table, double value) {
  const double magnitude = std::fabs(value);
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double largest = table.back();
  const double step = largest - table[table.size() - 2];
  if (magnitude >= largest + step / 2) return static_cast<uint16_t>(sign | table.size());
  if (magnitude >= largest) return static_cast<uint16_t>(sign | (table.size() - 1));
  const auto above = static_cast<size_t>(std::upper_bound(table.begin(), table.end(), magnitude) - table.begin());
  const double to_lower = magnitude - table[above - 1];
  const double to_upper = table[above] - magnitude;
  const bool up = to_upper < to_lower || (to_upper == to_lower && above % 2 == 0);
  return static_cast<uint16_t>(sign | (up ? above : above - 1));
}

std::vector<double> Samples(const std::vector<double>& table) {
  std::mt19937_64 random(7);
  std::vector<double> samples = {0.0, 1e-300, 1e300, 65519.999, 65520.0, 65535.0, 3.4e38, 3.3961775e38};
  for (size_t i = 0; i + 1 < table.size(); i += 7) {
    const double middle = 0.5 * (table[i] + table[i + 1]);
    const double nudge = std::ldexp(middle, -40);
    for (double sample : {table[i], middle, middle + nudge, middle - nudge}) samples.push_back(sample);
  }
  for (int i = 0; i < 20000; ++i) {
    const double exponent = static_cast<double>(random() % 100) - 60;
    samples.push_back(
        std::ldexp(1.0 + static_cast<double>(random() % 1000003) / 1000003.0, static_cast<int>(exponent)));
  }
  return samples;
}

template <typename ToFloat, typename FromFloat, typename FromDouble>
void CheckRoundTrip(const char* format, uint16_t pattern, ToFloat&& to_float, FromFloat&& from_float,
                    FromDouble&& from_double) {
  CAPTURE(std::string(format));
  CAPTURE(pattern);
  const float value = to_float(pattern);
  if (std::isnan(value)) {
    CHECK(std::isnan(to_float(from_float(value))));
  } else {
    CHECK(from_float(value) == pattern);
    CHECK(from_double(static_cast<double>(value)) == pattern);
  }
}

TEST_CASE("every float16 or bfloat16 number survives a conversion to float or double and back, and a NaN stays a NaN") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    CheckRoundTrip("half", static_cast<uint16_t>(bits), HalfToFloat, FloatToHalf, DoubleToHalf);
    CheckRoundTrip("bfloat16", static_cast<uint16_t>(bits), Bf16ToFloat, FloatToBf16, DoubleToBf16);
  }
  CHECK(HalfToFloat(0x3c00) == 1.0f);
  CHECK(HalfToFloat(0x0001) == std::ldexp(1.0f, -24));
  CHECK(std::isinf(HalfToFloat(0x7c00)));
}

TEST_CASE("converting float or double to float16 or bfloat16 rounds once, to nearest even") {
  const std::vector<double> halves = Magnitudes(HalfToFloat, 0x7c00);
  const std::vector<double> brains = Magnitudes(Bf16ToFloat, 0x7f80);
  for (const std::vector<double>* table : {&halves, &brains}) {
    const bool is_half = table == &halves;
    for (double sample : Samples(*table)) {
      for (double value : {sample, -sample}) {
        CAPTURE(value);
        CHECK((is_half ? DoubleToHalf(value) : DoubleToBf16(value)) == NearestPattern(*table, value));
        const auto single = static_cast<float>(value);
        if (!std::isfinite(single)) continue;
        CHECK((is_half ? FloatToHalf(single) : FloatToBf16(single)) ==
              NearestPattern(*table, static_cast<double>(single)));
      }
    }
  }
}

TEST_CASE("Widen and Narrow convert elements of every floating-point dtype") {
  const std::vector<double> values = {1.5, -2.0, 0.0, 65504.0, -0.25};
  const auto n = static_cast<int64_t>(values.size());
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kBf16}) {
    std::vector<uint64_t> stored(values.size());
    std::vector<double> back(values.size());
    Narrow(values.data(), stored.data(), dtype, n);
    Widen(stored.data(), dtype, back.data(), n);
    CHECK(back[0] == 1.5);
    CHECK(back[1] == -2.0);
    CHECK(back[3] == (dtype == Dtype::kBf16 ? 65536.0 : 65504.0));
    CHECK(back[4] == -0.25);
  }
}

}  // namespace
}  // namespace shampoo

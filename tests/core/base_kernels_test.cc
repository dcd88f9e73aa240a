// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/convert.h"
#include "core/base/kernels/kernels.h"

namespace shampoo {
namespace {

template <typename Real>
std::vector<Real> Draw(std::mt19937_64& random, int64_t n) {
  std::normal_distribution<Real> normal;
  std::vector<Real> values(static_cast<size_t>(n));
  for (Real& value : values) value = normal(random);
  return values;
}

template <typename Real>
bool SameBits(const std::vector<Real>& a, const std::vector<Real>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Real)) == 0;
}

// The results that Expect() computes from the formulas of a step, one element at a time.
template <typename Real>
struct Expected {
  std::vector<Real> v, e, h, d, m, update, value;
};

template <typename Real>
struct KernelInputs {
  FilterScalars<Real> filter;
  ApplyScalars<Real> apply;
  std::vector<Real> g, v, e, w, m, p;
};

template <typename Real>
KernelInputs<Real> DrawInputs(std::mt19937_64& random, int64_t n, int variant) {
  KernelInputs<Real> inputs;
  const auto flag = [variant](int bit) { return (variant >> bit & 1) != 0; };
  inputs.filter = {
      Real(0.9),  Real(0.1),  Real(0.8), Real(0.2), flag(1) ? Real(0.8) : Real(0.7), flag(1) ? Real(0.2) : Real(0.3),
      Real(0.36), Real(0.19), Real(1e-3)};
  inputs.apply = {Real(0.7),
                  Real(1.3),
                  flag(0) ? Real(0.01) : Real(0),
                  Real(0.9),
                  flag(2) ? Real(0.75) : Real(1),
                  Real(0.1),
                  flag(2) ? Real(0.03) : Real(0),
                  flag(1),
                  flag(3)};
  for (auto* values : {&inputs.g, &inputs.e, &inputs.w, &inputs.m, &inputs.p}) *values = Draw<Real>(random, n);
  inputs.v = Draw<Real>(random, n);
  for (Real& value : inputs.v) value = value * value;
  return inputs;
}

template <typename Real>
Expected<Real> Expect(const KernelInputs<Real>& in, bool moment, bool filtered, bool momentum) {
  Expected<Real> out{in.v, in.e, in.g, in.g, in.m, in.p, in.p};
  for (size_t i = 0; i < in.g.size(); ++i) {
    if (filtered) {
      out.e[i] = in.filter.filter_decay * in.e[i] + in.filter.filter_weight * in.g[i];
      out.h[i] = (in.filter.ahead_decay * in.e[i] + in.filter.ahead_weight * in.g[i]) / in.filter.filter_correction;
    }
    if (moment) {
      out.v[i] = in.filter.moment_decay * in.v[i] + in.filter.moment_weight * (in.g[i] * in.g[i]);
      out.d[i] = out.h[i] / (std::sqrt(out.v[i] / in.filter.moment_correction) + in.filter.moment_epsilon);
    }
    Real direction = in.p[i] * in.apply.down * in.apply.up;
    const bool decays =
        !(in.apply.cautious && direction != 0 && in.w[i] != 0 && std::signbit(direction) != std::signbit(in.w[i]));
    if (in.apply.decay != 0 && decays) direction += in.apply.decay * in.w[i];
    if (momentum) {
      direction *= in.apply.momentum_weight;
      out.m[i] = in.apply.momentum * in.m[i] + direction;
      direction = in.apply.nesterov ? direction + in.apply.momentum * out.m[i] : out.m[i];
    }
    out.update[i] = direction * -in.apply.lr;
    if (in.apply.shrinkage != 0 && decays) out.update[i] = out.update[i] - in.apply.shrinkage * in.w[i];
    out.value[i] = in.w[i] + out.update[i];
  }
  return out;
}

// Checks the elementwise loops of the methods soap and kl_shampoo.
template <typename Real>
void CheckEigenbasisPasses(const KernelsOf<Real>& of, const std::vector<Real>& x, const std::vector<Real>& g) {
  const auto n = static_cast<int64_t>(x.size());
  FilterScalars<Real> scalars{};
  scalars.moment_decay = Real(0.75);
  scalars.moment_weight = Real(0.25);
  std::vector<Real> product = x;
  of.multiply(g.data(), product.data(), n);
  std::vector<double> sums(x.size(), 1.0);
  of.add_squares(x.data(), sums.data(), n);
  std::vector<Real> damped = x;
  of.scale_damped(g.data(), Real(0.125), damped.data(), n);
  Real largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK(product[i] == x[i] * g[i]);
    CHECK(sums[i] == 1.0 + static_cast<double>(x[i]) * static_cast<double>(x[i]));
    CHECK(damped[i] == x[i] * (g[i] / (1 + g[i] * Real(0.125))));
    largest = std::max(largest, Real(0.75) * product[i] + Real(0.25) * (g[i] * g[i]));
  }
  CHECK(of.largest_next_moment(scalars, g.data(), product.data(), n) == largest);
}

template <typename Real>
void CheckPasses(const Kernels& kernels) {
  std::mt19937_64 random(4);
  const KernelsOf<Real>& of = kernels.Of<Real>();
  for (const int64_t n : {1, 2, 7, 8, 15, 16, 17, 31, 64, 100, 511, 512}) {
    for (int variant = 0; variant < 32; ++variant) {
      const bool moment = (variant & 4) != 0;
      const bool filtered = (variant & 8) != 0;
      const bool momentum = (variant & 16) != 0;
      KernelInputs<Real> in = DrawInputs<Real>(random, n, variant);
      const Expected<Real> want = Expect(in, moment, filtered, momentum);
      std::vector<Real> h = in.g;
      std::vector<Real> d = in.g;
      of.filter(in.filter, in.g.data(), moment ? in.v.data() : nullptr, filtered ? in.e.data() : nullptr, h.data(),
                d.data(), n);
      // The new values overwrite W, as in a step that updates its parameters in place.
      std::vector<Real> update(in.p.size());
      of.apply(in.apply, in.p.data(), in.w.data(), momentum ? in.m.data() : nullptr, update.data(), in.w.data(), n);
      CHECK(SameBits(in.v, want.v));
      CHECK(SameBits(in.e, want.e));
      CHECK(SameBits(h, want.h));
      if (moment) CHECK(SameBits(d, want.d));
      CHECK(SameBits(in.m, want.m));
      CHECK(SameBits(update, want.update));
      CHECK(SameBits(in.w, want.value));
    }
    const std::vector<Real> x = Draw<Real>(random, n);
    double exact = 0;
    for (const Real value : x) exact += static_cast<double>(value) * static_cast<double>(value);
    CHECK(of.sum_of_squares(x.data(), n) == doctest::Approx(exact).epsilon(1e-14));
    CHECK(of.sum_of_squares(x.data(), n) == kBaselineKernels.Of<Real>().sum_of_squares(x.data(), n));
    const std::vector<Real> g = Draw<Real>(random, n);
    std::vector<Real> row = x;
    of.accumulate(Real(0.9), row.data(), Real(0.3), g.data(), n);
    std::vector<Real> loaded(x.size());
    of.load(Real(0.5), x.data(), Real(0.1), g.data(), loaded.data(), n);
    std::vector<Real> scaled(x.size());
    of.load(Real(0.5), x.data(), Real(0), nullptr, scaled.data(), n);
    for (size_t i = 0; i < x.size(); ++i) {
      CHECK(row[i] == Real(0.9) * x[i] + Real(0.3) * g[i]);
      CHECK(loaded[i] == Real(0.5) * x[i] + Real(0.1) * g[i]);
      CHECK(scaled[i] == Real(0.5) * x[i]);
    }
    CheckEigenbasisPasses(of, x, g);
  }
}

TEST_CASE("the elementwise loops of every instruction set give results bit-identical to the formulas") {
  int count = 0;
  for (const Kernels* const* kernels = UsableKernels(); *kernels != nullptr; ++kernels, ++count) {
    CAPTURE(std::string((*kernels)->name));
    CheckPasses<float>(**kernels);
    CheckPasses<double>(**kernels);
  }
  CHECK(count >= 1);
  CHECK(&BestKernels() == UsableKernels()[count - 1]);
}

TEST_CASE(
    "in every instruction set, converting an array gives the same results as converting its elements one by one") {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  std::vector<float> floats;
  std::mt19937 random(5);
  for (const uint16_t half : halves) {
    // Appends to `floats` the float16 number `half`, the midpoint between this number and the next one (if the number
    // is normal), and the neighboring floats of the number and of the midpoint.
    const uint32_t bits = std::bit_cast<uint32_t>(HalfToFloat(half));
    for (const uint32_t near : {bits - 1, bits, bits + 1, bits + 0xfff, bits + 0x1000, bits + 0x1001}) {
      floats.push_back(std::bit_cast<float>(near));
    }
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  }
  const auto n = static_cast<int64_t>(floats.size());
  for (const Kernels* const* kernels = UsableKernels(); *kernels != nullptr; ++kernels) {
    CAPTURE(std::string((*kernels)->name));
    std::vector<float> wide(halves.size());
    std::vector<uint16_t> narrow(floats.size());
    // A CHECK of each element would be slow, so `check` calls doctest only for a mismatch. The message shows the bits
    // of the element, because every NaN would be printed in the same way.
    const auto check = [](const char* function, const auto& got, const auto& from, auto expected) {
      using Bits = std::conditional_t<sizeof from[0] == sizeof(float), uint32_t, uint16_t>;
      for (size_t i = 0; i < got.size(); ++i) {
        const auto wanted = expected(from[i]);
        if (std::memcmp(&got[i], &wanted, sizeof wanted) == 0) continue;
        FAIL_CHECK(std::string(function) << ": element " << i << ", with bits " << std::bit_cast<Bits>(from[i]));
      }
    };
    (*kernels)->widen_f16(halves.data(), wide.data(), 65536);
    check("widen_f16", wide, halves, HalfToFloat);
    (*kernels)->widen_bf16(halves.data(), wide.data(), 65536);
    check("widen_bf16", wide, halves, Bf16ToFloat);
    (*kernels)->narrow_f16(floats.data(), narrow.data(), n);
    check("narrow_f16", narrow, floats, FloatToHalf);
    (*kernels)->narrow_bf16(floats.data(), narrow.data(), n);
    check("narrow_bf16", narrow, floats, FloatToBf16);
  }
}

// Checks a function that clears the sign bit of each word and returns the largest of the resulting words.
template <typename Word>
void CheckLargest(Word (*largest)(const Word* words, int64_t n), std::mt19937_64& random) {
  constexpr auto kWithoutSign = static_cast<Word>(std::numeric_limits<Word>::max() >> 1);
  CAPTURE(sizeof(Word));
  for (const int64_t n : {1, 3, 8, 33, 100, 600}) {
    CAPTURE(n);
    std::vector<Word> words(static_cast<size_t>(n));
    Word expected = 0;
    for (Word& word : words) {
      word = static_cast<Word>(random());
      expected = std::max(expected, static_cast<Word>(word & kWithoutSign));
    }
    CHECK(largest(words.data(), n) == expected);
  }
}

TEST_CASE("in every instruction set, the search for the largest bit pattern ignores sign bits") {
  std::mt19937_64 random(6);
  for (const Kernels* const* kernels = UsableKernels(); *kernels != nullptr; ++kernels) {
    CAPTURE(std::string((*kernels)->name));
    CheckLargest((*kernels)->largest_u16, random);
    CheckLargest((*kernels)->largest_u32, random);
    CheckLargest((*kernels)->largest_u64, random);
  }
}

}  // namespace
}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/base/kernels/kernels.h"
#include "tests/core/rules_cases.h"

namespace shampoo {
namespace {

TEST_CASE("the update rules give on the host the results that the tables in rules_cases.h expect") {
  ForEachTable([](const char* name, const auto* cases, size_t count) {
    CAPTURE(std::string(name));
    for (size_t i = 0; i < count; ++i) {
      CAPTURE(i);
      const double result = cases[i].Run();
      CHECK_MESSAGE(IsAsExpected(result, cases[i].expected), result, " instead of ", cases[i].expected);
    }
  });
}

TEST_CASE("ProbeSigns::At returns the same signs as successive calls of Next, and about half of them are positive") {
  ProbeSigns signs;
  int64_t positive = 0;
  for (int64_t i = 0; i < 5000; ++i) {
    const double sign = signs.Next();
    CHECK(ProbeSigns::At(i) == sign);
    positive += sign > 0 ? 1 : 0;
  }
  CHECK(positive > 2300);
  CHECK(positive < 2700);
}

// Numbers for which mathematically equal formulas may give different results.
template <typename Real>
std::vector<Real> HardNumbers() {
  using Limits = std::numeric_limits<Real>;
  return {Real{0},
          -Real{0},
          Real{1},
          Real(-0.3),
          Real(1.1e-5),
          Limits::max(),
          -Limits::max(),
          Limits::min(),
          Limits::denorm_min(),
          Limits::infinity(),
          -Limits::infinity(),
          Limits::quiet_NaN(),
          Limits::epsilon(),
          Real(3e19),
          Real(7.7),
          -Limits::denorm_min()};
}

template <typename Real>
bool SameNumber(Real a, Real b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

// Returns the first position where a and b differ, or their size if they are equal.
template <typename Real>
size_t FirstDifference(const std::vector<Real>& a, const std::vector<Real>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!SameNumber(a[i], b[i])) return i;
  }
  return a.size();
}

// All triples (a, b, c) of HardNumbers(). They are (P, W, M) in CheckApply() and (G, E, V) in CheckFilter().
template <typename Real>
struct Combinations {
  std::vector<Real> a, b, c;

  Combinations() {
    const std::vector<Real> numbers = HardNumbers<Real>();
    for (const Real x : numbers) {
      for (const Real y : numbers) {
        for (const Real z : numbers) {
          a.push_back(x);
          b.push_back(y);
          c.push_back(z);
        }
      }
    }
  }
};

template <typename Real>
void CheckApply(const KernelsOf<Real>& kernels, const ApplyScalars<Real>& scalars, bool has_momentum) {
  const Combinations<Real> numbers;
  const size_t count = numbers.a.size();
  std::vector<Real> m = numbers.c, update(count), value(count), moved = numbers.c, expected_update(count),
                    expected_value(count);
  kernels.apply(scalars, numbers.a.data(), numbers.b.data(), has_momentum ? m.data() : nullptr, update.data(),
                value.data(), static_cast<int64_t>(count));
  for (size_t i = 0; i < count; ++i) {
    const AppliedElement<Real> applied = has_momentum
                                             ? ApplyElement<true>(scalars, numbers.a[i], numbers.b[i], numbers.c[i])
                                             : ApplyElement<false>(scalars, numbers.a[i], numbers.b[i], numbers.c[i]);
    if (has_momentum) moved[i] = applied.moved;
    expected_update[i] = applied.update;
    expected_value[i] = applied.value;
  }
  CHECK(FirstDifference(m, moved) == count);
  CHECK(FirstDifference(update, expected_update) == count);
  CHECK(FirstDifference(value, expected_value) == count);
}

template <typename Real>
void CheckFilter(const KernelsOf<Real>& kernels, const FilterScalars<Real>& scalars) {
  const Combinations<Real> numbers;
  const size_t count = numbers.a.size();
  std::vector<Real> v = numbers.c, e = numbers.b, h(count), d(count), next_v(count), next_e(count), next_h(count),
                    next_d(count);
  kernels.filter(scalars, numbers.a.data(), v.data(), e.data(), h.data(), d.data(), static_cast<int64_t>(count));
  for (size_t i = 0; i < count; ++i) {
    next_e[i] = NextFiltered(scalars, numbers.b[i], numbers.a[i]);
    next_h[i] = FilteredGradient(scalars, numbers.b[i], numbers.a[i]);
    next_v[i] = NextMoment(scalars, numbers.c[i], numbers.a[i]);
    next_d[i] = MomentDirection(scalars, next_h[i], next_v[i]);
  }
  CHECK(FirstDifference(v, next_v) == count);
  CHECK(FirstDifference(e, next_e) == count);
  CHECK(FirstDifference(h, next_h) == count);
  CHECK(FirstDifference(d, next_d) == count);
}

template <typename Real>
void CheckKernels(const KernelsOf<Real>& kernels) {
  for (int flags = 0; flags < 32; ++flags) {
    const auto flag = [flags](int bit) { return (flags >> bit & 1) != 0; };
    const bool decays = flag(0), shrinks = flag(1), nesterov = flag(2), cautious = flag(3), has_momentum = flag(4);
    CheckApply<Real>(kernels,
                     {Real(0.7), Real(1.3), decays ? Real(0.01) : Real(0), Real(0.9), Real(0.75), Real(0.1),
                      shrinks ? Real(0.01) : Real(0), nesterov, cautious},
                     has_momentum);
  }
  CheckFilter<Real>(
      kernels, {Real(0.9), Real(0.1), Real(0.8), Real(0.2), Real(0.7), Real(0.3), Real(0.36), Real(0.19), Real(1e-3)});
}

TEST_CASE(
    "the kernels of every usable instruction set give the same results as the rules, even for infinities and NaN") {
  for (const Kernels* const* kernels = UsableKernels(); *kernels != nullptr; ++kernels) {
    CAPTURE(std::string((*kernels)->name));
    CheckKernels<float>((*kernels)->f32);
    CheckKernels<double>((*kernels)->f64);
  }
}

}  // namespace
}  // namespace shampoo

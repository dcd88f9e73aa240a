// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/spectrum.h"

#include <cmath>
#include <random>

namespace bench {
namespace {

constexpr double kCondition = 1e4;

// Rotates rows i and i + stride of an n x n matrix.
void TurnRows(int64_t n, int64_t i, int64_t stride, float c, float s, float* a) {
  float* const x = a + i * n;
  float* const y = a + (i + stride) * n;
  for (int64_t j = 0; j < n; ++j) {
    const float old = x[j];
    x[j] = c * old - s * y[j];
    y[j] = s * old + c * y[j];
  }
}

}  // namespace

std::vector<float> MakeFactor(int64_t n) {
  std::mt19937 random(static_cast<uint32_t>(n));
  std::uniform_real_distribution<float> angle(0.5f, 1.0f);
  std::vector<float> a(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) {
    const double part = n > 1 ? static_cast<double>(i) / static_cast<double>(n - 1) : 0;
    a[static_cast<size_t>(i * n + i)] = static_cast<float>(std::pow(kCondition, -part));
  }
  // For each stride: A <- R A R^T, where R rotates pairs of rows that are `stride` apart, and R^T rotates the same
  // pairs of columns. If n is a power of 2, every row is mixed with every other row after the last stride.
  for (int64_t stride = 1; stride < n; stride *= 2) {
    std::vector<float> c(static_cast<size_t>(n), 1);
    std::vector<float> s(static_cast<size_t>(n), 0);
    for (int64_t first = 0; first < n; first += 2 * stride) {
      for (int64_t i = first; i < first + stride && i + stride < n; ++i) {
        const auto at = static_cast<size_t>(i);
        const float turn = angle(random);
        c[at] = std::cos(turn);
        s[at] = std::sin(turn);
        TurnRows(n, i, stride, c[at], s[at], a.data());
      }
    }
    for (int64_t row = 0; row < n; ++row) {
      float* const x = a.data() + row * n;
      for (int64_t first = 0; first < n; first += 2 * stride) {
        for (int64_t i = first; i < first + stride && i + stride < n; ++i) {
          const auto at = static_cast<size_t>(i);
          const float old = x[i];
          x[i] = c[at] * old - s[at] * x[i + stride];
          x[i + stride] = s[at] * old + c[at] * x[i + stride];
        }
      }
    }
  }
  return a;
}

}  // namespace bench

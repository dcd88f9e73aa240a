// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "core/blas/blas.h"
#include "tests/core/blas_fixture.h"

namespace shampoo {

using Doubles = std::vector<double>;

// Converts an index, or a number of elements, to size_t.
inline size_t At(int64_t i) { return static_cast<size_t>(i); }

template <typename Real>
std::vector<Real> Identity(int64_t n) {
  std::vector<Real> identity(At(n * n));
  for (int64_t i = 0; i < n; ++i) identity[At(i * n + i)] = 1;
  return identity;
}

inline Doubles Scaled(Doubles a, double factor) {
  for (double& element : a) element *= factor;
  return a;
}

// Returns the square root of the sum of squares.
inline double NormOf(const Doubles& a) {
  double square = 0;
  for (const double element : a) square += element * element;
  return std::sqrt(square);
}

inline double LargestOf(const Doubles& a) {
  double largest = 0;
  for (const double element : a) largest = std::max(largest, std::fabs(element));
  return largest;
}

// Returns the largest absolute difference between corresponding elements, or NaN if a difference is NaN.
template <typename Real>
double LargestDifference(const std::vector<Real>& a, const std::vector<Real>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(a[i] - b[i]));
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

// Returns the n x n matrix Q diag(l) Q^T, where Q is a product of three random reflections and l(i) are the
// eigenvalues. The calling thread must have scratch memory for BLAS.
inline Doubles WithEigenvaluesBy(int64_t n, const std::function<double(int64_t)>& l) {
  const auto at = [n](int64_t i, int64_t j) { return At(i * n + j); };
  std::mt19937_64 random(At(n));
  std::normal_distribution<double> normal;
  Doubles a(At(n * n)), v(At(n)), av(At(n));
  for (int64_t i = 0; i < n; ++i) a[at(i, i)] = l(i);
  for (int round = 0; round < 3; ++round) {
    double square = 0;
    for (double& element : v) {
      element = normal(random);
      square += element * element;
    }
    blas::Gemv(false, n, a.data(), v.data(), av.data());
    const double vav = std::inner_product(v.begin(), v.end(), av.begin(), 0.0);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const double cross = v[At(i)] * av[At(j)] + av[At(i)] * v[At(j)];
        a[at(i, j)] += (4 * vav / square * v[At(i)] * v[At(j)] - 2 * cross) / square;
      }
    }
  }
  return a;
}

}  // namespace shampoo

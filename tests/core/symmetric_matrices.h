// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "core/blas/blas.h"

namespace shampoo {

// Returns the n x n matrix Q diag(l) Q^T, where Q is a product of three random reflections and l(i) are the
// eigenvalues. The calling thread must have scratch memory for BLAS.
inline std::vector<double> WithEigenvaluesBy(int64_t n, const std::function<double(int64_t)>& l) {
  const auto at = [n](int64_t i, int64_t j) { return static_cast<size_t>(i * n + j); };
  const auto size = static_cast<size_t>(n);
  std::mt19937_64 random(size);
  std::normal_distribution<double> normal;
  std::vector<double> a(size * size), v(size), av(size);
  for (int64_t i = 0; i < n; ++i) a[at(i, i)] = l(i);
  for (int round = 0; round < 3; ++round) {
    double square = 0;
    for (double& element : v) {
      element = normal(random);
      square += element * element;
    }
    blas::Gemv(false, n, a.data(), v.data(), av.data());
    double vav = 0;
    for (size_t i = 0; i < size; ++i) vav += v[i] * av[i];
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const auto row = static_cast<size_t>(i);
        const auto column = static_cast<size_t>(j);
        const double cross = v[row] * av[column] + av[row] * v[column];
        a[at(i, j)] += (4 * vav / square * v[row] * v[column] - 2 * cross) / square;
      }
    }
  }
  return a;
}

}  // namespace shampoo

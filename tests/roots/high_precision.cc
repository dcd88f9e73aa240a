// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/roots/high_precision.h"

#include <cmath>
#include <limits>

namespace shampoo::roots_test {
namespace {

// Rotates rows and columns p and q of *a so that a[p][q] becomes zero. Rotates columns p and q of *v by the same angle
// (Golub and Van Loan, Matrix Computations, 8.5).
void Rotate(int64_t n, int64_t p, int64_t q, Matrix* a, Matrix* v) {
  auto at = [n](Matrix& m, int64_t i, int64_t j) -> Wide& { return m[static_cast<size_t>(i * n + j)]; };
  const Wide apq = at(*a, p, q);
  if (apq == 0) return;
  const Wide tau = (at(*a, q, q) - at(*a, p, p)) / (2 * apq);
  const Wide t = (tau >= 0 ? 1 : -1) / (std::fabs(tau) + std::sqrt(1 + tau * tau));
  const Wide c = 1 / std::sqrt(1 + t * t);
  const Wide s = t * c;
  for (int64_t i = 0; i < n; ++i) {
    const Wide x = at(*a, i, p);
    const Wide y = at(*a, i, q);
    at(*a, i, p) = c * x - s * y;
    at(*a, i, q) = s * x + c * y;
  }
  for (int64_t i = 0; i < n; ++i) {
    const Wide x = at(*a, p, i);
    const Wide y = at(*a, q, i);
    at(*a, p, i) = c * x - s * y;
    at(*a, q, i) = s * x + c * y;
  }
  at(*a, p, q) = 0;
  at(*a, q, p) = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Wide x = at(*v, i, p);
    const Wide y = at(*v, i, q);
    at(*v, i, p) = c * x - s * y;
    at(*v, i, q) = s * x + c * y;
  }
}

}  // namespace

Eigen JacobiEigen(int64_t n, Matrix a) {
  Eigen eigen;
  eigen.vectors.assign(static_cast<size_t>(n * n), 0);
  for (int64_t i = 0; i < n; ++i) eigen.vectors[static_cast<size_t>(i * n + i)] = 1;
  Wide total = 0;
  for (const Wide value : a) total += value * value;
  for (int sweep = 0; sweep < 60; ++sweep) {
    Wide off = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) {
        const Wide value = a[static_cast<size_t>(i * n + j)];
        off += value * value;
      }
    }
    if (off <= total * 1e-40L) break;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) Rotate(n, p, q, &a, &eigen.vectors);
    }
  }
  for (int64_t i = 0; i < n; ++i) eigen.values.push_back(a[static_cast<size_t>(i * n + i)]);
  return eigen;
}

double RelativeError(const Matrix& x, const Matrix& exact) {
  Wide error = 0;
  Wide size = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    if (std::isnan(x[i])) return std::numeric_limits<double>::quiet_NaN();
    error = std::fmax(error, std::fabs(x[i] - exact[i]));
    size = std::fmax(size, std::fabs(exact[i]));
  }
  return static_cast<double>(error / size);
}

double QuadResidual(int64_t n, const Matrix& b, const Matrix& x, int64_t power) {
  using Quad = __float128;
  std::vector<Quad> product(b.begin(), b.end());
  std::vector<Quad> next(product.size());
  for (int64_t k = 0; k < power; ++k) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        Quad sum = 0;
        for (int64_t m = 0; m < n; ++m) {
          sum += product[static_cast<size_t>(i * n + m)] * static_cast<Quad>(x[static_cast<size_t>(m * n + j)]);
        }
        next[static_cast<size_t>(i * n + j)] = sum;
      }
    }
    product.swap(next);
  }
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const Quad difference = product[static_cast<size_t>(i * n + j)] - (i == j ? 1 : 0);
      largest = std::fmax(largest, static_cast<double>(difference < 0 ? -difference : difference));
    }
  }
  return largest;
}

}  // namespace shampoo::roots_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Simple computations in more than double precision, as references for tests of inverse roots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shampoo::roots_test {

using Wide = long double;  // has a mantissa of 64 bits on x86
using Matrix = std::vector<Wide>;

// Eigendecomposition of a symmetric n x n matrix by cyclic Jacobi rotations, which are slow but very accurate. The
// eigenvectors are the columns of `vectors`.
struct Eigen {
  std::vector<Wide> values;
  Matrix vectors;
};
Eigen JacobiEigen(int64_t n, Matrix a);

// Returns Q diag(f(l)) Q^T with the eigenvectors Q and the eigenvalues l of `eigen`.
template <typename Function>
Matrix Apply(int64_t n, const Eigen& eigen, Function&& f) {
  Matrix result(static_cast<size_t>(n * n), 0);
  for (int64_t k = 0; k < n; ++k) {
    const Wide value = f(eigen.values[static_cast<size_t>(k)]);
    for (int64_t i = 0; i < n; ++i) {
      const Wide left = value * eigen.vectors[static_cast<size_t>(i * n + k)];
      for (int64_t j = 0; j < n; ++j) {
        result[static_cast<size_t>(i * n + j)] += left * eigen.vectors[static_cast<size_t>(j * n + k)];
      }
    }
  }
  return result;
}

// Returns max |X - E| / max |E|, where E is the exact value of the matrix X. Returns NaN if X contains NaN.
double RelativeError(const Matrix& x, const Matrix& exact);

// Returns max |B X^power - I|, computed in quadruple precision.
double QuadResidual(int64_t n, const Matrix& b, const Matrix& x, int64_t power);

}  // namespace shampoo::roots_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/blas/blas.h"
#include "core/blas/symmetric_product.h"
#include "tests/core/blas_fixture.h"

namespace shampoo {

TEST_CASE_TEMPLATE(
    "SymmetricProduct agrees with Gemm in the lower triangle, and the result is exactly symmetric for sizes above 64",
    Real, float, double) {
  const BlasFixture fixture;
  std::mt19937_64 random(3);
  std::normal_distribution<Real> normal;
  for (const int64_t n : {1, 2, 47, 48, 49, 64, 97, 150}) {
    CAPTURE(n);
    const auto count = static_cast<size_t>(n * n);
    std::vector<Real> a(count), b(count), c(count), expected;
    for (auto* matrix : {&a, &b, &c}) {
      for (Real& element : *matrix) element = normal(random);
    }
    for (const Real beta : {Real{0}, Real{1}, Real(0.5)}) {
      expected = c;
      blas::Gemm({false, false, Real(-2), beta}, n, n, n, a.data(), n, b.data(), n, expected.data(), n);
      std::vector<Real> got = c;
      if (beta == 0) std::fill(got.begin(), got.end(), std::numeric_limits<Real>::quiet_NaN());
      blas::SymmetricProduct(n, Real(-2), a.data(), b.data(), beta, got.data());
      const Real bound = std::numeric_limits<Real>::epsilon() * static_cast<Real>(4 * n);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j <= i; ++j) {
          const auto at = static_cast<size_t>(i * n + j);
          CHECK(std::fabs(got[at] - expected[at]) <= bound);
          if (n > 64) CHECK(got[static_cast<size_t>(j * n + i)] == got[at]);
        }
      }
    }
  }
}

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/backend/cpu/kronecker.h"
#include "core/roots/matrix.h"
#include "tests/core/blas_fixture.h"
#include "tests/core/plan_test_util.h"

namespace shampoo {
namespace {

std::vector<double> DrawValues(std::mt19937_64& random, int64_t n) {
  std::vector<double> values(static_cast<size_t>(n));
  for (double& value : values) value = static_cast<double>(plan_test::Draw(random, -1000, 1000)) / 500.0;
  return values;
}

// Returns an element of a tensor. If the tensor is a matrix, its rows are ld elements apart.
double ElementAt(const std::vector<double>& data, const Shape& shape, int64_t ld, const std::vector<int64_t>& at) {
  int64_t index = 0;
  for (int k = 0; k < shape.ndim; ++k) {
    index = shape.ndim == 2 ? (k == 0 ? at[0] * ld : index + at[1]) : index * shape[k] + at[static_cast<size_t>(k)];
  }
  return data[static_cast<size_t>(index)];
}

TEST_CASE("factor updates and contractions agree with their definition, element by element") {
  std::mt19937_64 random(11);
  const BlasFixture blas;
  // The list has vectors, tensors in which only one dim is longer than 1, and tensors in which the product of the dims
  // before or after some dim is small or large.
  const Shape special[] = {Shape::Of({3, 4, 70}), Shape::Of({40, 3, 7}), Shape::Of({300, 2, 3}),
                           Shape::Of({2, 5, 63}), Shape::Of({40}),       Shape::Of({40, 1}),
                           Shape::Of({1, 40}),    Shape::Of({1, 33, 1}), Shape::Of({20, 1, 3})};
  constexpr int kSpecial = std::size(special);
  for (int round = 0; round < 300; ++round) {
    const Shape shape = round < kSpecial
                            ? special[round]
                            : plan_test::DrawShape(random, static_cast<int>(plan_test::Draw(random, 1, 4)), 5);
    const int64_t ld = shape.ndim == 2 ? shape[1] + plan_test::Draw(random, 0, 3) : 0;
    const std::vector<double> g = DrawValues(random, shape.ndim == 2 ? shape[0] * ld : shape.Product());
    std::vector<double> spare(static_cast<size_t>(shape.Product()));
    const auto coordinates = plan_test::AllCoordinates(shape);
    for (int k = 0; k < shape.ndim; ++k) {
      const int64_t d = shape[k];
      const std::vector<double> old_factor = DrawValues(random, d * d);
      std::vector<double> factor = old_factor;
      UpdateFactor<double>(shape, k, {g.data(), ld}, 0.75, 0.25, factor.data(), d, spare.data(), nullptr);

      const auto contract = [&](const std::vector<double>& matrix, int64_t matrix_ld, MatrixForm form) {
        std::vector<double> contracted(static_cast<size_t>(shape.Product()));
        ContractDim<double>(shape, k, {g.data(), ld}, {matrix.data(), matrix_ld, form}, contracted.data(), spare.data(),
                            nullptr);
        return contracted;
      };
      std::vector<double> x = DrawValues(random, d * d);
      Mirror(d, x.data());
      const std::vector<double> out = contract(x, d, MatrixForm::kSymmetric);
      // With NaN below the diagonal of X, the contraction must give the same result, because kSymmetricUpper says that
      // only the upper triangle is valid.
      std::vector<double> upper = x;
      for (int64_t i = 0; i < d; ++i) std::fill_n(upper.begin() + i * d, i, std::nan(""));
      const std::vector<double> by_upper = contract(upper, d, MatrixForm::kSymmetricUpper);

      // Contractions that sum over the first index of Z and over the second index of Z. Z is a matrix that is not
      // symmetric. If all dims except k have length 1, Z is contiguous. Otherwise, two unused elements follow each row.
      const int64_t ldx = shape.Product() == d ? d : d + 2;
      const std::vector<double> z = DrawValues(random, d * ldx);
      const std::vector<double> by_first = contract(z, ldx, MatrixForm::kGeneral);
      const std::vector<double> by_second = contract(z, ldx, MatrixForm::kTransposed);

      std::vector<double> product(static_cast<size_t>(d * d), 0.0);
      for (size_t e = 0; e < coordinates.size(); ++e) {
        std::vector<int64_t> other = coordinates[e];
        const int64_t row = other[static_cast<size_t>(k)];
        double contracted = 0;
        double over_first = 0;
        double over_second = 0;
        for (int64_t j = 0; j < d; ++j) {
          other[static_cast<size_t>(k)] = j;
          const double value = ElementAt(g, shape, ld, other);
          contracted += x[static_cast<size_t>(row * d + j)] * value;
          over_first += z[static_cast<size_t>(j * ldx + row)] * value;
          over_second += z[static_cast<size_t>(row * ldx + j)] * value;
          product[static_cast<size_t>(row * d + j)] += ElementAt(g, shape, ld, coordinates[e]) * value;
        }
        CHECK(out[e] == doctest::Approx(contracted).epsilon(1e-12));
        CHECK(by_upper[e] == doctest::Approx(contracted).epsilon(1e-12));
        CHECK(by_first[e] == doctest::Approx(over_first).epsilon(1e-12));
        CHECK(by_second[e] == doctest::Approx(over_second).epsilon(1e-12));
      }
      for (int64_t i = 0; i < d; ++i) {
        for (int64_t j = 0; j < d; ++j) {
          const auto at = static_cast<size_t>(i * d + j);
          const double expected = j <= i ? 0.75 * old_factor[at] + 0.25 * product[at] : old_factor[at];
          CHECK(factor[at] == doctest::Approx(expected).epsilon(1e-12));
        }
      }
    }
  }
  CHECK(blas::UnplannedScratchRequests() == 0);
}

}  // namespace
}  // namespace shampoo

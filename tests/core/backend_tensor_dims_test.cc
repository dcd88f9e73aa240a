// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "core/backend/cpu/tensor_dims.h"
#include "tests/core/plan_test_util.h"

namespace shampoo {
namespace {

using plan_test::Draw;

const Shape kTensorShapes[] = {
    Shape::Of({1}),       Shape::Of({7}),          Shape::Of({1, 5}),         Shape::Of({4, 1}),
    Shape::Of({3, 40}),   Shape::Of({40, 3}),      Shape::Of({2, 3, 4}),      Shape::Of({3, 1, 9}),
    Shape::Of({5, 2, 1}), Shape::Of({2, 3, 2, 4}), Shape::Of({1, 2, 1, 3, 2})};

template <typename Real>
std::vector<Real> DrawValues(std::mt19937_64& random, int64_t n) {
  std::vector<Real> values(static_cast<size_t>(n));
  for (Real& value : values) value = static_cast<Real>(Draw(random, -100, 100)) / Real{16};
  return values;
}

// Calls visit(shape, k, coordinates of all elements) for each dim k of each shape in kTensorShapes.
template <typename Visit>
void ForEachDim(const Visit& visit) {
  for (const Shape& shape : kTensorShapes) {
    CAPTURE(Print(shape));
    const auto coordinates = plan_test::AllCoordinates(shape);
    for (int k = 0; k < shape.ndim; ++k) {
      CAPTURE(k);
      visit(shape, k, coordinates);
    }
  }
}

TEST_CASE_TEMPLATE("ScaleDim multiplies the elements at index i of a dim by factor i", Real, float, double) {
  std::mt19937_64 random(3);
  ForEachDim([&](const Shape& shape, int k, const auto& coordinates) {
    const std::vector<Real> before = DrawValues<Real>(random, shape.Product());
    const std::vector<Real> scale = DrawValues<Real>(random, shape[k]);
    std::vector<Real> after = before;
    ScaleDim(shape, k, scale.data(), after.data());
    for (size_t e = 0; e < coordinates.size(); ++e) {
      CHECK(after[e] == before[e] * scale[static_cast<size_t>(coordinates[e][static_cast<size_t>(k)])]);
    }
  });
}

TEST_CASE_TEMPLATE("SquaresAlong overwrites its output with the sum of squares at each index of a dim", Real, float,
                   double) {
  std::mt19937_64 random(4);
  ForEachDim([&](const Shape& shape, int k, const auto& coordinates) {
    const std::vector<Real> tensor = DrawValues<Real>(random, shape.Product());
    std::vector<double> expected(static_cast<size_t>(shape[k]), 0.0);
    for (size_t e = 0; e < coordinates.size(); ++e) {
      const auto value = static_cast<double>(tensor[e]);
      expected[static_cast<size_t>(coordinates[e][static_cast<size_t>(k)])] += value * value;
    }
    std::vector<double> sums(expected.size(), 77.0);
    SquaresAlong(shape, k, tensor.data(), sums.data());
    for (size_t i = 0; i < sums.size(); ++i) CHECK(sums[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  });
}

TEST_CASE("squares of float32 elements do not overflow in the sum") {
  const std::vector<float> tensor = {1e25F, 1, -1e25F, 2};
  double sums[2];
  SquaresAlong(Shape::Of({2, 2}), 1, tensor.data(), sums);
  CHECK(sums[0] == doctest::Approx(2e50));
  CHECK(sums[1] == 5);
}

TEST_CASE_TEMPLATE("PermuteDim copies the slices of a dim in the order that the caller passes", Real, float, double) {
  std::mt19937_64 random(5);
  ForEachDim([&](const Shape& shape, int k, const auto& coordinates) {
    const std::vector<Real> from = DrawValues<Real>(random, shape.Product());
    std::vector<int32_t> order(static_cast<size_t>(shape[k]));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<size_t>(Draw(random, 0, static_cast<int64_t>(i) - 1))]);
    }
    std::vector<Real> to(from.size(), Real{77});
    PermuteDim(shape, k, from.data(), order.data(), to.data());
    for (size_t e = 0; e < coordinates.size(); ++e) {
      std::vector<int64_t> source = coordinates[e];
      int64_t& index = source[static_cast<size_t>(k)];
      index = order[static_cast<size_t>(index)];
      const auto at = std::find(coordinates.begin(), coordinates.end(), source) - coordinates.begin();
      CHECK(to[e] == from[static_cast<size_t>(at)]);
    }
  });
}

}  // namespace
}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "core/plan/shape.h"
#include "tests/core/plan_test_util.h"

TEST_SUITE_BEGIN("plan/shape");

namespace shampoo {
namespace {

TEST_CASE("a shape compares by its dims alone") {
  CHECK(Shape::Of({2, 3}) == Shape::Of(std::vector<int64_t>{2, 3}));
  CHECK_FALSE(Shape::Of({2, 3}) == Shape::Of({3, 2}));
  CHECK_FALSE(Shape::Of({2}) == Shape::Of({2, 1}));
  CHECK(Shape::Of({}).ndim == 0);
  CHECK(Shape::Of({4, 2, 3}).DropFront(1) == Shape::Of({2, 3}));
  CHECK(Shape::Of({4, 2}).DropFront(2) == Shape::Of({}));
  CHECK(Shape::Of({1, 2, 3, 4, 5, 6, 7, 8}).ndim == kMaxDims);
}

TEST_CASE("strides are row-major") {
  CHECK(RowMajorStrides(Shape::Of({2, 3, 4})) == std::array<int64_t, kMaxDims>{12, 4, 1});
  CHECK(RowMajorStrides(Shape::Of({7})) == std::array<int64_t, kMaxDims>{1});
  CHECK(RowMajorStrides(Shape::Of({})) == std::array<int64_t, kMaxDims>{});
}

TEST_CASE("the product is checked against int64") {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  constexpr int64_t kUntouched = -1;
  const auto product = [](const Shape& shape) {
    int64_t result = kUntouched;
    const bool fits = CheckedProduct(shape, &result);
    CHECK(fits == (result != kUntouched));
    return result;
  };
  CHECK(product(Shape::Of({})) == 1);
  CHECK(Shape::Of({}).Product() == 1);
  CHECK(product(Shape::Of({2, 3, 4})) == 24);
  CHECK(Shape::Of({2, 3, 4}).Product() == 24);
  CHECK(product(Shape::Of({kLargest, 1})) == kLargest);
  CHECK(product(Shape::Of({int64_t{1} << 31, int64_t{1} << 31})) == int64_t{1} << 62);
  CHECK(product(Shape::Of({int64_t{1} << 31, int64_t{1} << 32})) == kUntouched);
  CHECK(product(Shape::Of({kLargest, 2})) == kUntouched);
  // The true product is a multiple of 2^64, which wraps to 0.
  CHECK(product(Shape::Of({int64_t{1} << 32, int64_t{1} << 32})) == kUntouched);
  CHECK(product(Shape::Of({kLargest, 2, 3})) == kUntouched);
  CHECK(product(Shape::Of({5, 0, 3})) == 0);
  CHECK(product(Shape::Of({0, kLargest, kLargest})) == 0);
  CHECK(product(Shape::Of({kLargest, kLargest, 0})) == 0);
}

}  // namespace
}  // namespace shampoo

TEST_SUITE_END();

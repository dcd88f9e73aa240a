// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "core/plan/blocking.h"
#include "core/plan/shape.h"
#include "tests/core/plan_test_util.h"

TEST_SUITE_BEGIN("plan/shape");

namespace shampoo {
namespace {

TEST_CASE("shapes are equal if their dims are equal") {
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

TEST_CASE("the product of dims is checked for overflow of int64") {
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
  // The true product is 2^64. In 64-bit arithmetic without a check, the result would be 0.
  CHECK(product(Shape::Of({int64_t{1} << 32, int64_t{1} << 32})) == kUntouched);
  CHECK(product(Shape::Of({kLargest, 2, 3})) == kUntouched);
  CHECK(product(Shape::Of({5, 0, 3})) == 0);
  CHECK(product(Shape::Of({0, kLargest, kLargest})) == 0);
  CHECK(product(Shape::Of({kLargest, kLargest, 0})) == 0);
}

TEST_CASE("ForEachRun() visits each element of a block once, in row-major order, and a whole tensor in one run") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 500; ++round) {
    const Shape shape = plan_test::DrawShape(random, static_cast<int>(plan_test::Draw(random, 1, 5)), 6);
    const auto strides = RowMajorStrides(shape);
    std::vector<int> seen(static_cast<size_t>(shape.Product()));
    for (const TensorBlock& view : SplitBlocks(shape, plan_test::Draw(random, 1, 6))) {
      const auto coordinates = plan_test::AllCoordinates(view.shape);
      int64_t dense_expected = 0;
      ForEachRun(view.shape, view.stride, 0, view.shape.Product(), [&](int64_t from, int64_t dense, int64_t length) {
        CHECK(dense == dense_expected);
        dense_expected += length;
        for (int64_t i = 0; i < length; ++i) {
          int64_t at = 0;
          const auto& coordinate = coordinates[static_cast<size_t>(dense + i)];
          for (int k = 0; k < shape.ndim; ++k)
            at += coordinate[static_cast<size_t>(k)] * strides[static_cast<size_t>(k)];
          CHECK(from + i == at);
          ++seen[static_cast<size_t>(view.offset + from + i)];
        }
      });
      CHECK(dense_expected == view.shape.Product());
      if (view.shape == shape) {
        ForEachRun(view.shape, view.stride, 0, shape.Product(),
                   [&](int64_t, int64_t, int64_t length) { CHECK(length == shape.Product()); });
      }
    }
    CHECK(std::ranges::count(seen, 1) == shape.Product());
  }
}

}  // namespace
}  // namespace shampoo

TEST_SUITE_END();

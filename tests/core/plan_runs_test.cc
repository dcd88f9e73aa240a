// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "core/plan/runs.h"
#include "core/plan/split.h"
#include "tests/core/plan_test_util.h"

namespace shampoo {
namespace {

TEST_CASE("runs visit each element of each block once, in row-major order, in stretches as long as can be") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 500; ++round) {
    const Shape shape = plan_test::DrawShape(random, static_cast<int>(plan_test::Draw(random, 1, 5)), 6);
    const auto strides = RowMajorStrides(shape);
    std::vector<int> seen(static_cast<size_t>(shape.Product()));
    for (const BlockView& view : SplitBlocks(shape, plan_test::Draw(random, 1, 6))) {
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

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/stack.h"
#include "tests/core/plan_test_util.h"

TEST_SUITE_BEGIN("plan/stack");

namespace shampoo {
namespace {

using plan_test::Draw;
using plan_test::DrawShape;

TEST_CASE("stack: the leading dims enumerate tensors of the others") {
  CHECK(StackedTensorShape(Shape::Of({2, 3, 4, 5}), 2) == Shape::Of({4, 5}));
  CHECK(StackedTensorShape(Shape::Of({2, 3}), 0) == Shape::Of({2, 3}));
  CHECK(StackedTensorShape(Shape::Of({2, 3}), 2) == Shape::Of({}));

  // 3 tensors of 20 elements: the last element of the first, the second whole, five of the third.
  const auto ranges = SplitStack(Shape::Of({3, 4, 5}), 1, 19, 45);
  REQUIRE(ranges.size() == 3);
  const int64_t expected[3][4] = {{0, 19, 20, 0}, {1, 0, 20, 1}, {2, 0, 5, 21}};
  for (size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    CHECK(ranges[i].tensor == expected[i][0]);
    CHECK(ranges[i].start == expected[i][1]);
    CHECK(ranges[i].end == expected[i][2]);
    CHECK(ranges[i].offset_in_shard == expected[i][3]);
  }
}

TEST_CASE("stack: empty ranges, wherever they lie, touch nothing") {
  for (const int64_t at : {0, 1, 4, 5, 8}) {
    CHECK(SplitStack(Shape::Of({2, 4}), 1, at, at).empty());
    CHECK(CountStack(Shape::Of({2, 4}), 1, at, at) == 0);
  }
}

TEST_CASE("stack: tensors are counted without being listed") {
  const Shape shape = Shape::Of({int64_t{1} << 40, int64_t{1} << 22});
  CHECK(CountStack(shape, 0, 0, int64_t{1} << 62) == 1);
  CHECK(CountStack(shape, 1, 0, int64_t{1} << 62) == int64_t{1} << 40);
  CHECK(CountStack(shape, 2, 0, int64_t{1} << 62) == int64_t{1} << 62);
}

TEST_CASE("stack: random ranges are cut at the borders of tensors and nowhere else") {
  std::mt19937_64 random(23);
  int checked = 0;
  int64_t parts = 0;
  for (int i = 0; i < 2000; ++i) {
    const int ndim = static_cast<int>(Draw(random, 0, 5));
    const Shape shape = DrawShape(random, ndim, ndim <= 2 ? 12 : 5);
    const int stack_dims = static_cast<int>(Draw(random, 0, ndim));
    const int64_t a = Draw(random, 0, shape.Product());
    const int64_t b = Draw(random, 0, shape.Product());
    const bool whole = i % 4 == 0;
    const int64_t start = whole ? 0 : std::min(a, b);
    const int64_t end = whole ? shape.Product() : std::max(a, b);
    CAPTURE(shape);
    CAPTURE(stack_dims);
    CAPTURE(start);
    CAPTURE(end);

    int64_t size = 1;
    for (int dim = stack_dims; dim < ndim; ++dim) size *= shape[dim];
    int64_t tensors = 1;
    for (int dim = 0; dim < stack_dims; ++dim) tensors *= shape[dim];

    const auto ranges = SplitStack(shape, stack_dims, start, end);
    CHECK(CountStack(shape, stack_dims, start, end) == static_cast<int64_t>(ranges.size()));
    if (whole) CHECK(static_cast<int64_t>(ranges.size()) == tensors);
    int64_t next = start;
    for (size_t part = 0; part < ranges.size(); ++part) {
      const StackedRange& range = ranges[part];
      CHECK(range.tensor >= 0);
      CHECK(range.tensor < tensors);
      CHECK(range.offset_in_shard == next - start);
      CHECK(range.tensor * size + range.start == next);
      CHECK(range.start >= 0);
      CHECK(range.start < range.end);
      CHECK(range.end <= size);
      if (part > 0) CHECK(range.tensor == ranges[part - 1].tensor + 1);
      next = range.tensor * size + range.end;
    }
    CHECK(next == end);
    parts += static_cast<int64_t>(ranges.size());
    ++checked;
  }
  CHECK(checked == 2000);
  CHECK(parts > 15000);
}

}  // namespace
}  // namespace shampoo

TEST_SUITE_END();

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "core/plan/merge.h"
#include "core/plan/split.h"
#include "tests/core/plan_test_util.h"

TEST_SUITE_BEGIN("plan/split");

namespace shampoo {
namespace {

using plan_test::AllCoordinates;
using plan_test::Draw;
using plan_test::DrawShape;
using plan_test::GoldenEntries;
using plan_test::HasEmptyDim;
using plan_test::ShapeFrom;

// The golden blocks give their offset as coordinates in `shape`; it is `shape` that was split.
void CheckBlocks(const Shape& shape, int64_t max_dim, const nlohmann::json& expected) {
  const auto blocks = SplitBlocks(shape, max_dim);
  REQUIRE(blocks.size() == expected.size());
  int64_t count = 0;
  CHECK(CountBlocks(shape, max_dim, &count));
  CHECK(count == static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < blocks.size(); ++i) {
    CHECK(blocks[i].shape == ShapeFrom(expected[i].at("shape")));
    int64_t offset = 0;
    for (int dim = 0; dim < shape.ndim; ++dim) {
      offset = offset * shape[dim] + expected[i].at("offset").at(static_cast<size_t>(dim)).get<int64_t>();
    }
    CHECK(blocks[i].offset == offset);
    CHECK(blocks[i].stride == RowMajorStrides(shape));
  }
}

TEST_CASE("split: golden") {
  int checked = 0;
  int empty = 0;
  int scalar = 0;
  for (const auto& entry : GoldenEntries("multi_dim_split")) {
    CAPTURE(entry.dump());
    const Shape shape = ShapeFrom(entry.at("shape"));
    if (HasEmptyDim(shape)) {
      ++empty;
    } else if (shape.ndim == 0) {
      ++scalar;  // the reference keeps (), here a scalar's block is (1)
    } else {
      CheckBlocks(shape, entry.at("max_dim"), entry.at("blocks"));
      ++checked;
    }
  }
  CHECK(checked == 37);
  CHECK(empty == 2);
  CHECK(scalar == 1);
}

TEST_CASE("merge and split: golden") {
  int checked = 0;
  int empty = 0;
  int scalar = 0;
  for (const auto& entry : GoldenEntries("merge_and_split")) {
    CAPTURE(entry.dump());
    const Shape shape = ShapeFrom(entry.at("shape"));
    const bool merge = entry.at("use_merge_dims");
    if (HasEmptyDim(shape)) {
      ++empty;
    } else if (shape.ndim == 0 && !merge) {
      ++scalar;  // as above
    } else {
      const int64_t max_dim = entry.at("max_dim");
      const Shape merged = merge ? MergeDims(shape, max_dim, 0) : shape;
      CHECK(merged == ShapeFrom(entry.at("merged")));
      CheckBlocks(merged, max_dim, entry.at("blocks"));
      ++checked;
    }
  }
  CHECK(checked == 46);
  CHECK(empty == 8);
  CHECK(scalar == 2);
}

TEST_CASE("split: a scalar is one block of shape (1)") {
  const auto blocks = SplitBlocks(Shape::Of({}), 3);
  REQUIRE(blocks.size() == 1);
  CHECK(blocks[0].shape == Shape::Of({1}));
  CHECK(blocks[0].stride == RowMajorStrides(Shape::Of({1})));
  CHECK(blocks[0].offset == 0);
  int64_t count = 0;
  CHECK(CountBlocks(Shape::Of({}), 3, &count));
  CHECK(count == 1);
}

TEST_CASE("split: blocks are counted without being made") {
  int64_t count = -1;
  CHECK(CountBlocks(Shape::Of({int64_t{1} << 31, int64_t{1} << 31}), 1, &count));
  CHECK(count == int64_t{1} << 62);
  CHECK(CountBlocks(Shape::Of({int64_t{1} << 31, (int64_t{1} << 31) - 1}), int64_t{1} << 30, &count));
  CHECK(count == 4);
  CHECK(CountBlocks(Shape::Of({std::numeric_limits<int64_t>::max()}), std::numeric_limits<int64_t>::max(), &count));
  CHECK(count == 1);
  count = -1;
  CHECK_FALSE(CountBlocks(Shape::Of({int64_t{1} << 32, int64_t{1} << 32}), 1, &count));
  CHECK(count == -1);
}

TEST_CASE("split: large offsets") {
  const auto blocks = SplitBlocks(Shape::Of({int64_t{1} << 31, int64_t{1} << 31}), int64_t{1} << 30);
  REQUIRE(blocks.size() == 4);
  CHECK(blocks[3].offset == (int64_t{1} << 61) + (int64_t{1} << 30));
}

TEST_CASE("split: random tensors are covered once, by the block that the chunk indices name") {
  std::mt19937_64 random(11);
  int checked = 0;
  int64_t elements = 0;
  for (int i = 0; i < 2000; ++i) {
    const int ndim = 1 + i % 5;
    const Shape shape = DrawShape(random, ndim, ndim <= 2 ? 20 : 6);
    const int64_t max_dim = Draw(random, 1, 8);
    CAPTURE(shape);
    CAPTURE(max_dim);
    const auto blocks = SplitBlocks(shape, max_dim);
    int64_t count = 0;
    CHECK(CountBlocks(shape, max_dim, &count));
    CHECK(count == static_cast<int64_t>(blocks.size()));

    // Which block holds each element, by walking every block through its strides.
    const auto coordinates = AllCoordinates(shape);
    std::vector<int64_t> holder(coordinates.size(), -1);
    bool once = true;
    bool in_bounds = true;
    for (size_t block = 0; block < blocks.size(); ++block) {
      const BlockView& view = blocks[block];
      REQUIRE(view.shape.ndim == ndim);
      for (const int64_t dim : view.shape.View()) CHECK(dim <= max_dim);
      for (const auto& at : AllCoordinates(view.shape)) {
        int64_t element = view.offset;
        for (size_t dim = 0; dim < at.size(); ++dim) element += at[dim] * view.stride[dim];
        in_bounds = in_bounds && element >= 0 && element < static_cast<int64_t>(holder.size());
        REQUIRE(in_bounds);
        int64_t& held_by = holder[static_cast<size_t>(element)];
        once = once && held_by == -1;
        held_by = static_cast<int64_t>(block);
        // The block is the tensor from its first element on: the same steps in the block and in the tensor.
        for (size_t dim = 0; dim < at.size(); ++dim) {
          once = once && coordinates[static_cast<size_t>(element)][dim] % max_dim == at[dim];
        }
      }
    }
    CHECK(once);
    bool expected_holder = true;
    for (size_t element = 0; element < coordinates.size(); ++element) {
      int64_t expected = 0;
      for (int dim = 0; dim < ndim; ++dim) {
        expected = expected * ((shape[dim] + max_dim - 1) / max_dim) +
                   coordinates[element][static_cast<size_t>(dim)] / max_dim;
      }
      expected_holder = expected_holder && holder[element] == expected;
    }
    CHECK(expected_holder);
    elements += static_cast<int64_t>(coordinates.size());
    ++checked;
  }
  CHECK(checked == 2000);
  CHECK(elements > 200000);
}

}  // namespace
}  // namespace shampoo

TEST_SUITE_END();

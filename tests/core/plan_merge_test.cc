// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "core/plan/merge.h"
#include "tests/core/plan_test_util.h"

TEST_SUITE_BEGIN("plan/merge");

namespace shampoo {
namespace {

using plan_test::Draw;
using plan_test::GoldenEntries;
using plan_test::HasEmptyDim;
using plan_test::ShapeFrom;

TEST_CASE("merge: golden") {
  int checked = 0;
  int empty = 0;
  for (const auto& entry : GoldenEntries("merge_small_dims")) {
    CAPTURE(entry.dump());
    const Shape shape = ShapeFrom(entry.at("shape"));
    if (HasEmptyDim(shape)) {
      ++empty;
      continue;
    }
    CHECK(MergeDims(shape, entry.at("threshold"), 0) == ShapeFrom(entry.at("merged")));
    ++checked;
  }
  CHECK(checked == 49);
  CHECK(empty == 3);
}

TEST_CASE("merge: left to right, as in the documented example") {
  CHECK(MergeDims(Shape::Of({32, 3, 64, 64}), 8192, 0) == Shape::Of({6144, 64}));
}

TEST_CASE("merge: products up to 2^62 do not overflow") {
  constexpr int64_t kHalf = int64_t{1} << 31;
  constexpr int64_t kFull = int64_t{1} << 62;
  CHECK(MergeDims(Shape::Of({kHalf, kHalf}), kFull, 0) == Shape::Of({kFull}));
  CHECK(MergeDims(Shape::Of({kHalf, kHalf}), kFull - 1, 0) == Shape::Of({kHalf, kHalf}));
  CHECK(MergeDims(Shape::Of({kHalf, kHalf}), std::numeric_limits<int64_t>::max(), 0) == Shape::Of({kFull}));
  CHECK(MergeDims(Shape::Of({kFull}), 1, 0) == Shape::Of({kFull}));
  // Not a shape that callers may pass: the product, 2^64, wraps to 0, which is below any bound.
  CHECK(MergeDims(Shape::Of({2 * kHalf, 2 * kHalf}), 1024, 0) == Shape::Of({2 * kHalf, 2 * kHalf}));
}

TEST_CASE("merge: random shapes keep their elements, and each run of dims is as long as the bound allows") {
  std::mt19937_64 random(7);
  int checked = 0;
  int joined = 0;
  for (int i = 0; i < 4000; ++i) {
    Shape shape;
    const int ndim = static_cast<int>(Draw(random, 0, kMaxDims));
    for (int dim = 0; dim < ndim; ++dim) {
      // Sizes spread over magnitudes, dims of 1 often; 8 dims of 7 bits stay below 2^56.
      shape.Append(Draw(random, 1, int64_t{1} << Draw(random, 0, 7)));
    }
    const int64_t max_dim = Draw(random, 1, int64_t{1} << Draw(random, 0, 56));
    CAPTURE(shape);
    CAPTURE(max_dim);
    const Shape merged = MergeDims(shape, max_dim, 0);
    CHECK(merged.Product() == shape.Product());

    // Taken apart again: each merged dim is the product of the next dims other than 1.
    std::vector<int64_t> dims;
    for (const int64_t dim : shape.View()) {
      if (dim != 1) dims.push_back(dim);
    }
    if (dims.empty()) {
      CHECK(merged == Shape::Of({1}));
      ++checked;
      continue;
    }
    size_t next = 0;
    for (const int64_t dim : merged.View()) {
      REQUIRE(next < dims.size());
      const size_t first = next;
      int64_t product = dims[next++];
      while (product < dim && next < dims.size()) product *= dims[next++];
      REQUIRE(product == dim);
      if (next - first > 1) {
        CHECK(dim <= max_dim);
        ++joined;
      }
      if (next < dims.size()) CHECK(dim * dims[next] > max_dim);  // both are factors of the product, which fits
    }
    CHECK(next == dims.size());
    ++checked;
  }
  CHECK(checked == 4000);
  CHECK(joined > 1000);
}

TEST_CASE("with a least dim, small dims join their neighbors from the right, and a matrix stays a matrix") {
  struct Expected {
    std::vector<int64_t> shape;
    std::vector<int64_t> merged;
  };
  for (const auto& [shape, merged] : {Expected{{10, 100}, {10, 100}},
                                      {{1000, 1}, {1000}},
                                      {{1, 3, 1, 5}, {3, 5}},
                                      {{64, 3, 3, 3}, {64, 27}},
                                      {{128, 64, 3, 3}, {128, 576}},
                                      {{3, 3, 64, 128}, {576, 128}},
                                      {{512, 8, 64}, {512, 512}},
                                      {{8, 64, 512}, {512, 512}},
                                      {{3, 128, 128}, {384, 128}},
                                      {{12, 768, 768}, {12, 768, 768}},
                                      {{64, 64, 64}, {64, 64, 64}},
                                      {{2, 2, 2}, {2, 4}},
                                      {{1, 1}, {1}},
                                      {{}, {1}}}) {
    CHECK(MergeDims(Shape::Of(shape), 1024, 32) == Shape::Of(merged));
  }
}

}  // namespace
}  // namespace shampoo

TEST_SUITE_END();

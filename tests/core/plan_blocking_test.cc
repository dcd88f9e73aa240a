// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "core/plan/blocking.h"
#include "tests/core/plan_test_util.h"

TEST_SUITE_BEGIN("plan/blocking");

namespace shampoo {
namespace {

using plan_test::AllCoordinates;
using plan_test::Draw;
using plan_test::DrawShape;
using plan_test::GoldenEntries;
using plan_test::HasEmptyDim;
using plan_test::ShapeFrom;

// Returns a random start and end with 0 <= start <= end <= size.
std::pair<int64_t, int64_t> DrawRange(std::mt19937_64& random, int64_t size) {
  const int64_t a = Draw(random, 0, size);
  const int64_t b = Draw(random, 0, size);
  return std::minmax(a, b);
}

TEST_CASE("stack: the leading dims enumerate tensors that have the other dims as their shape") {
  CHECK(StackedTensorShape(Shape::Of({2, 3, 4, 5}), 2) == Shape::Of({4, 5}));
  CHECK(StackedTensorShape(Shape::Of({2, 3}), 0) == Shape::Of({2, 3}));
  CHECK(StackedTensorShape(Shape::Of({2, 3}), 2) == Shape::Of({}));

  // The range contains the last of the 20 elements of tensor 0, all elements of tensor 1, and five of tensor 2.
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

TEST_CASE("stack: an empty range contains no tensor, wherever the range is") {
  for (const int64_t at : {0, 1, 4, 5, 8}) {
    CHECK(SplitStack(Shape::Of({2, 4}), 1, at, at).empty());
    CHECK(CountStack(Shape::Of({2, 4}), 1, at, at) == 0);
  }
}

TEST_CASE("stack: CountStack counts tensors even if they are too many to list") {
  const Shape shape = Shape::Of({int64_t{1} << 40, int64_t{1} << 22});
  CHECK(CountStack(shape, 0, 0, int64_t{1} << 62) == 1);
  CHECK(CountStack(shape, 1, 0, int64_t{1} << 62) == int64_t{1} << 40);
  CHECK(CountStack(shape, 2, 0, int64_t{1} << 62) == int64_t{1} << 62);
}

TEST_CASE("stack: random ranges are divided only at the borders of tensors") {
  std::mt19937_64 random(23);
  int64_t parts = 0;
  for (int i = 0; i < 2000; ++i) {
    const int ndim = static_cast<int>(Draw(random, 0, 5));
    const Shape shape = DrawShape(random, ndim, ndim <= 2 ? 12 : 5);
    const int stack_dims = static_cast<int>(Draw(random, 0, ndim));
    const bool whole = i % 4 == 0;
    const auto [start, end] = whole ? std::pair{int64_t{0}, shape.Product()} : DrawRange(random, shape.Product());
    CAPTURE(shape);
    CAPTURE(stack_dims);
    CAPTURE(start);
    CAPTURE(end);

    const int64_t size = shape.DropFront(stack_dims).Product();
    const int64_t tensors = shape.Product() / size;
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
  }
  CHECK(parts > 15000);
}

TEST_CASE("pieces of a flat shard agree with the reference implementation") {
  int checked = 0;
  for (const auto& entry : GoldenEntries("split_tensor_block_recovery")) {
    CAPTURE(entry.dump());
    const auto pieces = FlatShardPieces(ShapeFrom(entry.at("shape")), entry.at("start"), entry.at("end"));
    const auto& expected = entry.at("pieces");
    REQUIRE(pieces.size() == expected.size());
    for (size_t i = 0; i < pieces.size(); ++i) {
      CHECK(pieces[i].offset_in_shard == expected[i].at("offset_in_shard"));
      CHECK(pieces[i].shape == ShapeFrom(expected[i].at("shape")));
    }
    ++checked;
  }
  CHECK(checked == 69);
}

// Returns the shape of the smallest box around elements [start, end). `coordinates` has the coordinates of all
// elements.
Shape BoxAround(const std::vector<std::vector<int64_t>>& coordinates, int ndim, int64_t start, int64_t end) {
  Shape box;
  for (size_t dim = 0; dim < static_cast<size_t>(ndim); ++dim) {
    const auto of_dim = [dim](const std::vector<int64_t>& at) { return at[dim]; };
    const auto [least, largest] =
        std::ranges::minmax_element(coordinates.begin() + start, coordinates.begin() + end, {}, of_dim);
    box.Append(of_dim(*largest) - of_dim(*least) + 1);
  }
  return box;
}

// Checks that the pieces of a shard are as blocking.h describes for FlatShardPieces().
void CheckPieces(const Shape& shape, int64_t start, int64_t end, const std::vector<ShardPiece>& pieces) {
  const auto coordinates = AllCoordinates(shape);
  CHECK(pieces.size() <= static_cast<size_t>(2 * shape.ndim - 1));
  int64_t next = start;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Shape& piece = pieces[i].shape;
    CAPTURE(i);
    // The pieces contain each element exactly once, in memory order.
    REQUIRE(pieces[i].offset_in_shard == next - start);
    const int64_t piece_start = next;
    next += piece.Product();
    REQUIRE(piece_start < next);
    REQUIRE(next <= end);
    // A piece is dense: its elements fill a box. The shape of the piece is the shape of the box, possibly without some
    // leading dims of length 1.
    const Shape box = BoxAround(coordinates, shape.ndim, piece_start, next);
    REQUIRE(piece.ndim >= 1);
    REQUIRE(piece.ndim <= shape.ndim);
    const int dropped = shape.ndim - piece.ndim;
    CHECK(box.Product() == next - piece_start);
    CHECK(box.DropFront(dropped) == piece);
    // All dims of a piece except its first dim are as long as in the tensor. If leading dims are dropped, the first dim
    // of the piece is shorter than in the tensor. A piece as long as the tensor in this dim would be a whole slice
    // along the dim before it, and FlatShardPieces() would keep that dim, with length 1.
    CHECK(piece.DropFront(1) == shape.DropFront(dropped + 1));
    if (dropped > 0) CHECK(piece[0] < shape[dropped]);
    // Two adjacent pieces together do not fill a box, so they cannot be one piece.
    if (i + 1 < pieces.size()) {
      const int64_t both_end = next + pieces[i + 1].shape.Product();
      REQUIRE(both_end <= end);
      CHECK(BoxAround(coordinates, shape.ndim, piece_start, both_end).Product() > both_end - piece_start);
    }
  }
  CHECK(next == end);
}

TEST_CASE("pieces of a flat shard: random shards are covered once, in order, by dense sub-tensors") {
  std::mt19937_64 random(20240701);
  size_t most_pieces = 0;
  for (int ndim = 1; ndim <= 5; ++ndim) {
    for (int i = 0; i < 600; ++i) {
      const Shape shape = DrawShape(random, ndim, ndim <= 2 ? 12 : 5);
      const auto [start, end] = DrawRange(random, shape.Product());
      CAPTURE(shape);
      CAPTURE(start);
      CAPTURE(end);
      const auto pieces = FlatShardPieces(shape, start, end);
      CheckPieces(shape, start, end, pieces);
      most_pieces = std::max(most_pieces, pieces.size());
    }
  }
  CHECK(most_pieces >= 8);  // 5 dims give at most 9 pieces: up to 4 at each end of the shard, and one between them
}

TEST_CASE(
    "pieces of a flat shard: every shard of small tensors, even with dims of 1, is covered by dense sub-tensors") {
  int checked = 0;
  for (const Shape& shape : {Shape::Of({3, 2, 3}), Shape::Of({3, 1, 4}), Shape::Of({1, 4}), Shape::Of({4, 1}),
                             Shape::Of({1, 1, 1}), Shape::Of({1, 3, 1, 2})}) {
    for (int64_t start = 0; start <= shape.Product(); ++start) {
      for (int64_t end = start; end <= shape.Product(); ++end) {
        CAPTURE(shape);
        CAPTURE(start);
        CAPTURE(end);
        CheckPieces(shape, start, end, FlatShardPieces(shape, start, end));
        ++checked;
      }
    }
  }
  CHECK(checked == 190 + 91 + 15 + 15 + 3 + 28);
}

TEST_CASE("pieces of a flat shard: a tensor of order 5 without its first and last element has nine pieces") {
  const Shape shape = Shape::Of({3, 3, 3, 3, 3});
  const auto pieces = FlatShardPieces(shape, 1, 242);
  CheckPieces(shape, 1, 242, pieces);
  REQUIRE(pieces.size() == 9);
  CHECK(pieces[0].shape == Shape::Of({2}));
  CHECK(pieces[3].shape == Shape::Of({2, 3, 3, 3}));
  CHECK(pieces[4].shape == Shape::Of({1, 3, 3, 3, 3}));
  CHECK(pieces[5].shape == Shape::Of({2, 3, 3, 3}));
  CHECK(pieces[8].shape == Shape::Of({2}));
}

TEST_CASE("pieces of a flat shard: offsets near the end of int64 do not overflow") {
  const Shape shape = Shape::Of({int64_t{1} << 30, int64_t{1} << 32});
  const int64_t size = int64_t{1} << 62;
  const auto pieces = FlatShardPieces(shape, 1, size - 1);
  REQUIRE(pieces.size() == 3);
  CHECK(pieces[0].shape == Shape::Of({(int64_t{1} << 32) - 1}));
  CHECK(pieces[1].shape == Shape::Of({(int64_t{1} << 30) - 2, int64_t{1} << 32}));
  CHECK(pieces[2].offset_in_shard == size - (int64_t{1} << 32) - 1);
  CHECK(pieces[2].shape == Shape::Of({(int64_t{1} << 32) - 1}));
}

// Calls check(shape, entry) for each recorded entry whose shape has no dim of length 0. Returns the number of these
// entries, and the number of the other entries.
template <typename Check>
std::pair<int, int> CheckEntries(const char* name, const Check& check) {
  std::pair<int, int> checked_and_empty;
  for (const auto& entry : GoldenEntries(name)) {
    CAPTURE(entry.dump());
    const Shape shape = ShapeFrom(entry.at("shape"));
    const bool is_empty = HasEmptyDim(shape);
    ++(is_empty ? checked_and_empty.second : checked_and_empty.first);
    if (!is_empty) check(shape, entry);
  }
  return checked_and_empty;
}

TEST_CASE("merged dims agree with the reference implementation") {
  const auto [checked, empty] = CheckEntries("merge_small_dims", [](const Shape& shape, const nlohmann::json& entry) {
    CHECK(MergeDims(shape, entry.at("threshold"), 0) == ShapeFrom(entry.at("merged")));
  });
  CHECK(checked == 49);
  CHECK(empty == 3);
}

TEST_CASE("merge: dims are merged from left to right if merge_min_dim is 0") {
  CHECK(MergeDims(Shape::Of({32, 3, 64, 64}), 8192, 0) == Shape::Of({6144, 64}));
}

TEST_CASE("merge: products up to 2^62 do not overflow") {
  constexpr int64_t kHalf = int64_t{1} << 31;
  constexpr int64_t kFull = int64_t{1} << 62;
  CHECK(MergeDims(Shape::Of({kHalf, kHalf}), kFull, 0) == Shape::Of({kFull}));
  CHECK(MergeDims(Shape::Of({kHalf, kHalf}), kFull - 1, 0) == Shape::Of({kHalf, kHalf}));
  CHECK(MergeDims(Shape::Of({kHalf, kHalf}), std::numeric_limits<int64_t>::max(), 0) == Shape::Of({kFull}));
  CHECK(MergeDims(Shape::Of({kFull}), 1, 0) == Shape::Of({kFull}));
  // The product of these dims, 2^64, wraps to 0, which is below any bound. MergeDims() must not merge the
  // dims. (Creating a plan rejects such shapes.)
  CHECK(MergeDims(Shape::Of({2 * kHalf, 2 * kHalf}), 1024, 0) == Shape::Of({2 * kHalf, 2 * kHalf}));
}

TEST_CASE("merge: random shapes keep their number of elements and each merged dim is as large as max_dim allows") {
  std::mt19937_64 random(7);
  int joined = 0;
  for (int i = 0; i < 4000; ++i) {
    Shape shape;
    const int ndim = static_cast<int>(Draw(random, 0, kMaxDims));
    for (int dim = 0; dim < ndim; ++dim) {
      // Draws dims of all magnitudes, often 1. The product of 8 dims of at most 2^7 is at most 2^56.
      shape.Append(Draw(random, 1, int64_t{1} << Draw(random, 0, 7)));
    }
    const int64_t max_dim = Draw(random, 1, int64_t{1} << Draw(random, 0, 56));
    CAPTURE(shape);
    CAPTURE(max_dim);
    const Shape merged = MergeDims(shape, max_dim, 0);
    CHECK(merged.Product() == shape.Product());

    // Each dim of the result must be the product of consecutive elements of `dims`, the dims that are not 1.
    std::vector<int64_t> dims;
    std::ranges::copy_if(shape.View(), std::back_inserter(dims), [](int64_t dim) { return dim != 1; });
    if (dims.empty()) {
      CHECK(merged == Shape::Of({1}));
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
      if (next < dims.size()) CHECK(dim * dims[next] > max_dim);  // no overflow: this product divides shape.Product()
    }
    CHECK(next == dims.size());
  }
  CHECK(joined > 1000);
}

TEST_CASE("with merge_min_dim, small dims are merged from the right, and a matrix stays a matrix") {
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

constexpr int64_t kTooMany = -1;

// Returns the number of blocks, or kTooMany if it exceeds int64.
int64_t CountOfBlocks(const Shape& shape, int64_t max_dim, uint32_t skipped = 0) {
  int64_t count = kTooMany;
  const bool fits = CountBlocks(shape, max_dim, &count, skipped);
  CHECK(fits == (count != kTooMany));
  return count;
}

// Compares the blocks of a shape with recorded blocks. A recorded offset consists of the coordinates of the
// block's first element.
void CheckBlocks(const Shape& shape, int64_t max_dim, const nlohmann::json& expected) {
  const auto blocks = SplitBlocks(shape, max_dim);
  REQUIRE(blocks.size() == expected.size());
  CHECK(CountOfBlocks(shape, max_dim) == static_cast<int64_t>(expected.size()));
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

TEST_CASE("split blocks agree with the reference implementation") {
  int scalars = 0;
  const auto [checked, empty] = CheckEntries("multi_dim_split", [&](const Shape& shape, const nlohmann::json& entry) {
    // Scalars are not compared: their block has shape () in the reference implementation, and (1) in libshampoo.
    scalars += shape.ndim == 0 ? 1 : 0;
    if (shape.ndim > 0) CheckBlocks(shape, entry.at("max_dim"), entry.at("blocks"));
  });
  CHECK(checked == 38);
  CHECK(empty == 2);
  CHECK(scalars == 1);
}

TEST_CASE("merged and split blocks agree with the reference implementation") {
  int scalars = 0;
  const auto [checked, empty] = CheckEntries("merge_and_split", [&](const Shape& shape, const nlohmann::json& entry) {
    const bool merge = entry.at("use_merge_dims");
    const bool is_scalar = shape.ndim == 0 && !merge;  // not compared, as in the previous test case
    scalars += is_scalar ? 1 : 0;
    if (is_scalar) return;
    const int64_t max_dim = entry.at("max_dim");
    const Shape merged = merge ? MergeDims(shape, max_dim, 0) : shape;
    CHECK(merged == ShapeFrom(entry.at("merged")));
    CheckBlocks(merged, max_dim, entry.at("blocks"));
  });
  CHECK(checked == 48);
  CHECK(empty == 8);
  CHECK(scalars == 2);
}

TEST_CASE("split: a scalar is one block of shape (1)") {
  const auto blocks = SplitBlocks(Shape::Of({}), 3);
  REQUIRE(blocks.size() == 1);
  CHECK(blocks[0].shape == Shape::Of({1}));
  CHECK(blocks[0].stride == RowMajorStrides(Shape::Of({1})));
  CHECK(blocks[0].offset == 0);
  CHECK(CountOfBlocks(Shape::Of({}), 3) == 1);
}

TEST_CASE("split: CountBlocks counts blocks even if they are too many to list") {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  CHECK(CountOfBlocks(Shape::Of({int64_t{1} << 31, int64_t{1} << 31}), 1) == int64_t{1} << 62);
  CHECK(CountOfBlocks(Shape::Of({int64_t{1} << 31, (int64_t{1} << 31) - 1}), int64_t{1} << 30) == 4);
  CHECK(CountOfBlocks(Shape::Of({kLargest}), kLargest) == 1);
  CHECK(CountOfBlocks(Shape::Of({int64_t{1} << 32, int64_t{1} << 32}), 1) == kTooMany);
}

TEST_CASE("split: offsets of large tensors do not overflow") {
  const auto blocks = SplitBlocks(Shape::Of({int64_t{1} << 31, int64_t{1} << 31}), int64_t{1} << 30);
  REQUIRE(blocks.size() == 4);
  CHECK(blocks[3].offset == (int64_t{1} << 61) + (int64_t{1} << 30));
}

TEST_CASE("each block of an elementwise method is a range of at most kElementwiseBlock neighboring elements") {
  const auto shapes_of = [](const Shape& shape) {
    std::vector<std::vector<int64_t>> shapes;
    int64_t next = 0;
    for (const TensorBlock& view : SplitElementwise(shape)) {
      CHECK(view.offset == next);
      CHECK(view.shape.Product() <= kElementwiseBlock);
      next += view.shape.Product();
      shapes.emplace_back(view.shape.View().begin(), view.shape.View().end());
    }
    CHECK(next == std::max<int64_t>(shape.Product(), 0));
    return shapes;
  };
  using Shapes = std::vector<std::vector<int64_t>>;
  constexpr int64_t kMost = kElementwiseBlock;
  CHECK(shapes_of(Shape::Of({})) == Shapes{{1}});
  CHECK(shapes_of(Shape::Of({3, 5})) == Shapes{{3, 5}});
  CHECK(shapes_of(Shape::Of({kMost})) == Shapes{{kMost}});
  CHECK(shapes_of(Shape::Of({2 * kMost + 1})) == Shapes{{kMost}, {kMost}, {1}});
  CHECK(shapes_of(Shape::Of({5, kMost / 2})) == Shapes{{2, kMost / 2}, {2, kMost / 2}, {1, kMost / 2}});
  CHECK(shapes_of(Shape::Of({2, kMost + 1})) == Shapes{{1, kMost}, {1, 1}, {1, kMost}, {1, 1}});
  CHECK(shapes_of(Shape::Of({3, 3, kMost / 4})) == Shapes{{1, 3, kMost / 4}, {1, 3, kMost / 4}, {1, 3, kMost / 4}});
}

TEST_CASE("split: dividing the coordinates of an element by max_dim gives the block of the element") {
  std::mt19937_64 random(11);
  int64_t elements = 0;
  for (int i = 0; i < 2000; ++i) {
    const int ndim = 1 + i % 5;
    const Shape shape = DrawShape(random, ndim, ndim <= 2 ? 20 : 6);
    const int64_t max_dim = Draw(random, 1, 8);
    CAPTURE(shape);
    CAPTURE(max_dim);
    const auto blocks = SplitBlocks(shape, max_dim);
    CHECK(CountOfBlocks(shape, max_dim) == static_cast<int64_t>(blocks.size()));

    // Visits the elements of every block by the strides of the block.
    const auto coordinates = AllCoordinates(shape);
    std::vector<bool> is_held(coordinates.size());
    bool as_expected = true;
    for (size_t block = 0; block < blocks.size(); ++block) {
      const TensorBlock& view = blocks[block];
      REQUIRE(view.shape.ndim == ndim);
      for (const int64_t dim : view.shape.View()) CHECK(dim <= max_dim);
      for (const auto& at : AllCoordinates(view.shape)) {
        const int64_t element = std::inner_product(at.begin(), at.end(), view.stride.begin(), view.offset);
        REQUIRE((element >= 0 && element < shape.Product()));
        as_expected = as_expected && !is_held[static_cast<size_t>(element)];
        is_held[static_cast<size_t>(element)] = true;
        // The coordinates in the block are the coordinates in the tensor, relative to the block's first element.
        const std::vector<int64_t>& in_tensor = coordinates[static_cast<size_t>(element)];
        int64_t expected_block = 0;
        for (size_t dim = 0; dim < at.size(); ++dim) {
          as_expected = as_expected && in_tensor[dim] % max_dim == at[dim];
          const int64_t blocks_of_dim = (shape[static_cast<int>(dim)] + max_dim - 1) / max_dim;
          expected_block = expected_block * blocks_of_dim + in_tensor[dim] / max_dim;
        }
        as_expected = as_expected && expected_block == static_cast<int64_t>(block);
      }
    }
    CHECK(as_expected);
    CHECK(std::ranges::count(is_held, false) == 0);
    elements += static_cast<int64_t>(coordinates.size());
  }
  CHECK(elements > 200000);
}

TEST_CASE("skipped dims: a dim above skip_size is not merged and dims before it are not merged with dims after it") {
  struct Case {
    Shape shape;
    int64_t min_dim;
    Shape merged;
    uint32_t skipped;
  };
  // Dims are merged if their product is at most 12. A dim above 20 is skipped.
  const Case cases[] = {
      {Shape::Of({2, 3, 4}), 0, Shape::Of({6, 4}), 0},
      {Shape::Of({2, 30, 3, 4}), 0, Shape::Of({2, 30, 12}), 0b010},
      {Shape::Of({30, 2, 3}), 0, Shape::Of({30, 6}), 0b01},
      {Shape::Of({2, 3, 30}), 0, Shape::Of({6, 30}), 0b10},
      {Shape::Of({30, 1, 40}), 0, Shape::Of({30, 40}), 0b11},
      {Shape::Of({21}), 0, Shape::Of({21}), 1},
      {Shape::Of({20}), 0, Shape::Of({20}), 0},
      // With min_dim, dims are merged from right to left, and at least two dims remain.
      {Shape::Of({2, 2, 30, 2, 2}), 8, Shape::Of({4, 30, 4}), 0b010},
      {Shape::Of({30, 2, 2, 2}), 8, Shape::Of({30, 8}), 0b01},
  };
  for (const Case& one : cases) {
    CAPTURE(Print(one.shape));
    uint32_t skipped = 77;
    CHECK(MergeDims(one.shape, 12, one.min_dim, 20, &skipped) == one.merged);
    CHECK(skipped == one.skipped);
  }
  uint32_t none = 77;
  CHECK(MergeDims(Shape::Of({2, 30}), 60, 0, 0, &none) == Shape::Of({60}));  // with skip_size 0, no dim is skipped
  CHECK(none == 0);
}

TEST_CASE("skipped dims: a skipped dim is not split") {
  const auto blocks = SplitBlocks(Shape::Of({5, 30}), 4, 0b10);
  REQUIRE(blocks.size() == 2);
  CHECK(blocks[0].shape == Shape::Of({4, 30}));
  CHECK(blocks[1].shape == Shape::Of({1, 30}));
  CHECK(blocks[1].offset == 120);
  CHECK(CountOfBlocks(Shape::Of({5, 30}), 4, 0b10) == 2);
  CHECK(CountOfBlocks(Shape::Of({5, 30}), 4) == 16);
}

}  // namespace
}  // namespace shampoo

TEST_SUITE_END();

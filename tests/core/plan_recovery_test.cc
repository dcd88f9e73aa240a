// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/recovery.h"
#include "tests/core/plan_test_util.h"

TEST_SUITE_BEGIN("plan/recovery");

namespace shampoo {
namespace {

using plan_test::AllCoordinates;
using plan_test::Draw;
using plan_test::DrawShape;
using plan_test::GoldenEntries;
using plan_test::ShapeFrom;

TEST_CASE("shard recovery: golden") {
  int checked = 0;
  for (const auto& entry : GoldenEntries("split_tensor_block_recovery")) {
    CAPTURE(entry.dump());
    const auto pieces = RecoverPieces(ShapeFrom(entry.at("shape")), entry.at("start"), entry.at("end"));
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

// Extents of the smallest box around the elements [start, end), given the coordinates of all elements.
Shape BoxAround(const std::vector<std::vector<int64_t>>& coordinates, int ndim, int64_t start, int64_t end) {
  Shape box;
  for (int dim = 0; dim < ndim; ++dim) {
    int64_t least = coordinates[static_cast<size_t>(start)][static_cast<size_t>(dim)];
    int64_t largest = least;
    for (int64_t i = start; i < end; ++i) {
      const int64_t at = coordinates[static_cast<size_t>(i)][static_cast<size_t>(dim)];
      least = std::min(least, at);
      largest = std::max(largest, at);
    }
    box.Append(largest - least + 1);
  }
  return box;
}

// Everything the rule says of the pieces of one shard, from coordinates alone.
void CheckPieces(const Shape& shape, int64_t start, int64_t end, const std::vector<Piece>& pieces) {
  const auto coordinates = AllCoordinates(shape);
  CHECK(pieces.size() <= static_cast<size_t>(2 * shape.ndim - 1));
  int64_t next = start;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Shape& piece = pieces[i].shape;
    CAPTURE(i);
    // Each element exactly once, in memory order.
    REQUIRE(pieces[i].offset_in_shard == next - start);
    const int64_t piece_start = next;
    next += piece.Product();
    REQUIRE(piece_start < next);
    REQUIRE(next <= end);
    // A dense sub-tensor: it fills its box, and its shape is that of the box.
    const Shape box = BoxAround(coordinates, shape.ndim, piece_start, next);
    REQUIRE(piece.ndim >= 1);
    REQUIRE(piece.ndim <= shape.ndim);
    const int dropped = shape.ndim - piece.ndim;
    CHECK(box.Product() == next - piece_start);
    CHECK(box.DropFront(dropped) == piece);
    // Whole slices of the dims it keeps; a dim is dropped only where the piece is a proper part of one slice.
    CHECK(piece.DropFront(1) == shape.DropFront(dropped + 1));
    if (dropped > 0) CHECK(piece[0] < shape[dropped]);
    // Nothing is cut that could have stayed together.
    if (i + 1 < pieces.size()) {
      const int64_t both_end = next + pieces[i + 1].shape.Product();
      REQUIRE(both_end <= end);
      CHECK(BoxAround(coordinates, shape.ndim, piece_start, both_end).Product() > both_end - piece_start);
    }
  }
  CHECK(next == end);
}

TEST_CASE("shard recovery: random shards are covered once, in order, by dense sub-tensors") {
  std::mt19937_64 random(20240701);
  int checked = 0;
  int most_pieces = 0;
  for (int ndim = 1; ndim <= 5; ++ndim) {
    for (int i = 0; i < 600; ++i) {
      const Shape shape = DrawShape(random, ndim, ndim <= 2 ? 12 : 5);
      const int64_t size = shape.Product();
      const int64_t a = Draw(random, 0, size);
      const int64_t b = Draw(random, 0, size);
      const int64_t start = std::min(a, b);
      const int64_t end = std::max(a, b);
      CAPTURE(shape);
      CAPTURE(start);
      CAPTURE(end);
      const auto pieces = RecoverPieces(shape, start, end);
      CheckPieces(shape, start, end, pieces);
      most_pieces = std::max(most_pieces, static_cast<int>(pieces.size()));
      ++checked;
    }
  }
  CHECK(checked == 3000);
  CHECK(most_pieces >= 8);  // of at most 9: deep recursion on both sides was among the cases
}

TEST_CASE("shard recovery: every shard of small tensors, dims of 1 included") {
  int checked = 0;
  for (const Shape& shape : {Shape::Of({3, 2, 3}), Shape::Of({3, 1, 4}), Shape::Of({1, 4}), Shape::Of({4, 1}),
                             Shape::Of({1, 1, 1}), Shape::Of({1, 3, 1, 2})}) {
    for (int64_t start = 0; start <= shape.Product(); ++start) {
      for (int64_t end = start; end <= shape.Product(); ++end) {
        CAPTURE(shape);
        CAPTURE(start);
        CAPTURE(end);
        CheckPieces(shape, start, end, RecoverPieces(shape, start, end));
        ++checked;
      }
    }
  }
  CHECK(checked == 190 + 91 + 15 + 15 + 3 + 28);
}

TEST_CASE("shard recovery: all but the first and the last element of an order 5 tensor") {
  const Shape shape = Shape::Of({3, 3, 3, 3, 3});
  const auto pieces = RecoverPieces(shape, 1, 242);
  CheckPieces(shape, 1, 242, pieces);
  REQUIRE(pieces.size() == 9);
  CHECK(pieces[0].shape == Shape::Of({2}));
  CHECK(pieces[3].shape == Shape::Of({2, 3, 3, 3}));
  CHECK(pieces[4].shape == Shape::Of({1, 3, 3, 3, 3}));
  CHECK(pieces[5].shape == Shape::Of({2, 3, 3, 3}));
  CHECK(pieces[8].shape == Shape::Of({2}));
}

TEST_CASE("shard recovery: offsets near the end of int64") {
  const Shape shape = Shape::Of({int64_t{1} << 30, int64_t{1} << 32});
  const int64_t size = int64_t{1} << 62;
  const auto pieces = RecoverPieces(shape, 1, size - 1);
  REQUIRE(pieces.size() == 3);
  CHECK(pieces[0].shape == Shape::Of({(int64_t{1} << 32) - 1}));
  CHECK(pieces[1].shape == Shape::Of({(int64_t{1} << 30) - 2, int64_t{1} << 32}));
  CHECK(pieces[2].offset_in_shard == size - (int64_t{1} << 32) - 1);
  CHECK(pieces[2].shape == Shape::Of({(int64_t{1} << 32) - 1}));
}

}  // namespace
}  // namespace shampoo

TEST_SUITE_END();

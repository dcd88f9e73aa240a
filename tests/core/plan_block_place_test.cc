// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of BlockPlace, which describes the elements of a parameter that belong to a block of a checkpoint.
#include <doctest/doctest.h>

#include <tuple>

#include "core/plan/block_place.h"
#include "core/plan/element_positions.h"
#include "tests/core/status_check.h"
#include "tests/core/step_fixture.h"

namespace shampoo {
namespace {

// A block with rows 1 and 2 and columns 2 and 3 of a 4 x 5 parameter. Its piece (BlockPlace::piece) is the whole
// parameter.
BlockPlace Corner() { return {Shape::Of({2, 2}), {5, 1}, 7, Region::Interval(0, 20, 20)}; }

// A block with the same elements as Corner(). Its piece is a rectangle that contains only these elements.
BlockPlace RectangularPiece() {
  return {Shape::Of({2, 2}), {2, 1}, 0, Region::Rectangle(Shape::Of({4, 5}), Shape::Of({1, 2}), Shape::Of({2, 2}))};
}

// For each run of elements that ForEachRunOf() visits: its position in the block, its position in the parameter, and
// its length.
using Runs = std::vector<std::tuple<int64_t, int64_t, int64_t>>;
Runs RunsOf(const BlockPlace& place, int64_t begin, int64_t end) {
  Runs runs;
  ForEachRunOf(place, {begin, end},
               [&](int64_t in_block, int64_t at, int64_t count) { runs.emplace_back(in_block, at, count); });
  return runs;
}

TEST_CASE(
    "SamePlace is true if a block of the whole parameter and a block of a rectangular piece have the same elements") {
  for (const BlockPlace& place : {Corner(), RectangularPiece()}) {
    CHECK(place.FindMistake(20) == nullptr);
    CHECK(place.elements() == 4);
    CHECK(place.first() == 7);
    CHECK(RunsOf(place, 0, 4) == Runs{{0, 7, 2}, {2, 12, 2}});
    CHECK(RunsOf(place, 1, 3) == Runs{{1, 8, 1}, {2, 12, 1}});
  }
  CHECK(Corner().is_whole());
  CHECK(!RectangularPiece().is_whole());
  CHECK(SamePlace(Corner(), RectangularPiece()));
  BlockPlace other = RectangularPiece();
  other.piece = Region::Rectangle(Shape::Of({4, 5}), Shape::Of({1, 1}), Shape::Of({2, 2}));
  CHECK(!SamePlace(Corner(), other));
  other = Corner();
  other.stride[0] = 6;  // changes the positions of the second row only
  CHECK(!SamePlace(Corner(), other));
  other = Corner();
  other.shape = Shape::Of({4});
  CHECK(!SamePlace(Corner(), other));
}

TEST_CASE("the elements that a block has in an interval of the parameter are consecutive in the block") {
  const auto check = [](int64_t first, int64_t count, int64_t begin, int64_t end) {
    for (const BlockPlace& place : {Corner(), RectangularPiece()}) {
      CAPTURE(first);
      const DenseRange range = Within(place, first, count);
      CHECK(range.begin == begin);
      CHECK(range.end == end);
    }
  };
  check(0, 20, 0, 4);
  check(0, 7, 0, 0);
  check(8, 4, 1, 2);
  check(8, 5, 1, 3);
  check(13, 7, 3, 4);
}

TEST_CASE("the blocks of a plan contain each element of the parameter exactly once") {
  const StepFixture fixture("max_preconditioner_dim=2 use_merge_dims=false", {{4, 5}});
  std::vector<int> owners(20);
  for (const Block& block : fixture.plan().blocks) {
    const BlockPlace place = BlockPlace::Of(fixture.plan().params[0].desc, block);
    CHECK(place.FindMistake(20) == nullptr);
    for (const auto& [in_block, at, count] : RunsOf(place, 0, place.elements())) {
      for (int64_t i = 0; i < count; ++i) ++owners[static_cast<size_t>(at + i)];
    }
  }
  CHECK(owners == std::vector<int>(20, 1));
}

TEST_CASE("ElementPositions and ForEachRunOf return the same positions") {
  const Region columns = Region::Rectangle(Shape::Of({4, 5, 6}), Shape::Of({1, 1, 2}), Shape::Of({3, 3, 4}));
  const Region interval = Region::Interval(11, 36, 120);
  const BlockPlace places[] = {
      Corner(),
      RectangularPiece(),
      {Shape::Of({1, 1}), {1, 1}, 3, Region::Interval(0, 4, 4)},
      {Shape::Of({3, 3, 4}), {12, 4, 1}, 0, columns},
      {Shape::Of({2, 1, 3}), {12, 12, 1}, 5, columns},
      {Shape::Of({9, 4}), {4, 1}, 0, columns},
      {Shape::Of({36}), {1}, 0, columns},
      {Shape::Of({2, 2, 3}), {18, 6, 1}, 2, interval},
      {Shape::Of({2, 18}), {18, 1}, 0, interval},
  };
  for (const BlockPlace& place : places) {
    CAPTURE(&place - places);
    const ElementPositions positions = ElementPositions::Of(place);
    for (const auto& [in_block, at, count] : RunsOf(place, 0, place.elements())) {
      for (int64_t i = 0; i < count; ++i) CHECK(positions.At(in_block + i) == at + i);
    }
  }
  // In each of these two blocks, all elements are contiguous in the piece, so the dims of the block are merged into
  // one.
  CHECK(ElementPositions::Of(places[8]).block.order == 1);
  CHECK(ElementPositions::Of(places[3]).block.order == 1);
}

TEST_CASE("FindMistake reports why a place cannot describe a block of a parameter") {
  struct Case {
    const char* says;
    void (*change)(BlockPlace* place);
  };
  static const Shape two_dims = Shape::Of({4, 5}), empty = Shape::Of({2, 0}), wide = Shape::Of({2, 14});
  const Case cases[] = {
      {"its parameter has a different size", [](BlockPlace* place) { place->piece = Region::Interval(0, 19, 19); }},
      {"its parameter has a different size", [](BlockPlace* place) { place->piece.shape = Shape::Of({0}); }},
      {"its piece is empty", [](BlockPlace* place) { place->piece.extent = Shape::Of({0}); }},
      {"its piece has the wrong number of dims", [](BlockPlace* place) { place->piece.extent = two_dims; }},
      {"its piece is not within the parameter", [](BlockPlace* place) { place->piece.offset = Shape::Of({1}); }},
      {"its piece is not within the parameter", [](BlockPlace* place) { place->piece.offset = Shape::Of({-1}); }},
      {"its shape is empty, or its offset", [](BlockPlace* place) { place->offset = 20; }},
      {"its shape is empty, or its offset", [](BlockPlace* place) { place->shape = empty; }},
      {"its last stride is not 1", [](BlockPlace* place) { place->stride[1] = 2; }},
      {"its strides", [](BlockPlace* place) { place->stride[0] = 13; }},
      {"its strides", [](BlockPlace* place) { place->stride[0] = 1; }},
      {"its strides", [](BlockPlace* place) { place->shape = wide; }},
      {"its strides", [](BlockPlace* place) { place->stride[0] = -5; }},
  };
  for (const Case& one : cases) {
    CAPTURE(std::string(one.says));
    BlockPlace place = Corner();
    one.change(&place);
    CHECK(std::string(place.FindMistake(20)).find(one.says) == 0);
  }
}

}  // namespace
}  // namespace shampoo

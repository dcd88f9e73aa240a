// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests ranks that hold the shards of one replica (FSDP, tensor parallelism), with shard_mode=local. AppendPieces below
// divides a shard into pieces. A step must update each piece like a separate parameter.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>

#include "tests/distributed/models.h"
#include "tests/distributed/random_shards.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// Appends the shapes of the pieces of a flat shard, which consists of elements [s, e) of a row-major tensor. All
// complete slices along dim 0 are one piece. The elements before and after this piece are parts of slices. Each part is
// divided in the same way along the next dim. See "flat shards" in docs/many_ranks.md.
void AppendPieces(const Shape& shape, int64_t s, int64_t e, std::vector<Shape>* pieces) {
  if (s == e) return;
  if (shape.size() <= 1) return pieces->push_back({e - s});
  const Shape slice(shape.begin() + 1, shape.end());
  const int64_t stride = Product(slice);
  const int64_t first = (s + stride - 1) / stride;
  const int64_t last = e / stride;
  if (first > last) return AppendPieces(slice, s - last * stride, e - last * stride, pieces);  // within one slice
  if (s < first * stride) AppendPieces(slice, s - (first - 1) * stride, stride, pieces);
  if (first < last) {
    Shape slices = shape;
    slices[0] = last - first;
    pieces->push_back(slices);
  }
  if (last * stride < e) AppendPieces(slice, 0, e - last * stride, pieces);
}

std::string Name(const char* prefix, size_t i) {
  std::string name = prefix;
  return name += std::to_string(i);
}

// Returns a specification in which each piece of each shard is a separate parameter. Fills `first` so that the pieces
// of parameter p of `shard` have the indices first[p] to first[p + 1] - 1.
RankSpec PiecesOf(const RankSpec& shard, std::vector<size_t>* first) {
  RankSpec pieces = shard;
  pieces.params.clear();
  for (const ParamSpec& param : shard.params) {
    std::vector<Shape> shapes;
    if (param.shard_form == 2) shapes = {param.local_shape};
    if (param.shard_form == 1) {
      AppendPieces(param.shape, param.flat_offset, param.flat_offset + param.flat_count, &shapes);
    }
    first->push_back(pieces.params.size());
    for (const Shape& shape : shapes) pieces.params.push_back({Name("piece", pieces.params.size()), shape});
  }
  first->push_back(pieces.params.size());
  return pieces;
}

// Copies the elements of each parameter p of `from` to its pieces, which are the tensors first[p] to first[p + 1] - 1
// of `to`.
void Scatter(const Tensors& from, const std::vector<size_t>& first, Tensors* to) {
  for (size_t p = 0; p < from.size(); ++p) {
    auto at = from[p].begin();
    for (size_t i = first[p]; i < first[p + 1]; ++i) {
      const auto count = static_cast<int64_t>((*to)[i].size());
      (*to)[i].assign(at, at + count);
      at += count;
    }
    REQUIRE(at == from[p].end());
  }
}

void CheckShards(const RandomCase& one, const Shards& shards, int steps) {
  Grid grid(one.spec, 1, shards);
  RequireCreate(&grid);
  const auto ranks = shards.size();
  std::vector<std::unique_ptr<Rank>> pieces;
  std::vector<std::vector<size_t>> first(ranks);
  grid.FillParams(1);
  for (size_t r = 0; r < ranks; ++r) {
    pieces.push_back(std::make_unique<Rank>(PiecesOf(grid.Alone(static_cast<int>(r)), &first[r])));
    RequireOk(*pieces[r]);
    Scatter(grid[static_cast<int>(r)].w, first[r], &pieces[r]->w);
  }
  const std::vector<Tensors> start = ParamsOf(&grid);
  for (int t = 1; t <= steps; ++t) {
    grid.FillGradients(100 + static_cast<uint64_t>(t));
    RequireStep(&grid);
    for (size_t r = 0; r < ranks; ++r) {
      Scatter(grid[static_cast<int>(r)].g, first[r], &pieces[r]->g);
      RequireStep(pieces[r].get());
    }
  }
  for (size_t r = 0; r < ranks; ++r) {
    Tensors expected = pieces[r]->w;
    Scatter(grid[static_cast<int>(r)].w, first[r], &expected);
    CHECK(SameBits(expected, pieces[r]->w));
  }
  CHECK_FALSE(SameBits(ParamsOf(&grid), start));
}

void CheckRandomFlatShards(uint64_t count) {
  uint64_t empty = 0;
  for (uint64_t seed = 0; seed < count; ++seed) {
    CAPTURE(seed);
    RandomCase one(seed);
    const Shards shards = one.CutAll(one.Draw(1, 8), [] { return true; });
    for (const auto& shard : shards) empty += shard[0].flat_count == 0 ? 1 : 0;
    CheckShards(one, shards, static_cast<int>(one.Draw(1, 2)));
  }
  CHECK(empty > count / 16);
}

TEST_CASE("random flat shards on several ranks are bit-identical to separate pieces") { CheckRandomFlatShards(400); }

TEST_SUITE("long") {
  TEST_CASE("1600 random models in flat shards on several ranks are bit-identical to separate pieces") {
    CheckRandomFlatShards(1600);
  }
}

// Calls CheckShards for `count` random models with each of kOtherMethods.
void CheckRandomShardsOf(uint64_t count) {
  for (const Keys& method : kOtherMethods) {
    CAPTURE(method);
    for (uint64_t seed = 0; seed < count; ++seed) {
      CAPTURE(seed);
      RandomCase one(seed);
      one.spec.keys = method;
      if (HasFactors(method)) {
        one.spec.keys = method + Keys{{"use_merge_dims", one.OneOf({"true", "false"})},
                                      {"max_preconditioner_dim", std::to_string(one.Draw(2, 9))}};
      }
      // Method muon uses the shape of the whole parameter for shape_scale, and to decide whether a piece is a matrix.
      // The test therefore sets shape_scale=none and uses no flat shards with muon.
      const bool is_muon = method[0].second == "muon";
      if (is_muon) one.spec.keys.emplace_back("shape_scale", "none");
      const Shards shards = one.CutAll(one.Draw(1, 4), [&] { return !is_muon && one.OneIn(2); });
      // Methods soap and kl_shampoo compute their first eigenbases in step 1. Step 4 uses refreshed eigenbases.
      CheckShards(one, shards, 4);
    }
  }
}

TEST_CASE("random shards with other methods are bit-identical to separate pieces") { CheckRandomShardsOf(25); }

TEST_SUITE("long") {
  TEST_CASE("300 random models in shards with each of the other methods are bit-identical to separate pieces") {
    CheckRandomShardsOf(300);
  }
}

TEST_CASE("random rectangular shards on several ranks are bit-identical to parameters of the same shapes") {
  int empty = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    RandomCase one(seed);
    const Shards shards = one.CutAll(one.Draw(1, 8), [] { return false; });
    for (const auto& shard : shards) empty += Product(shard[0].local_shape) == 0 ? 1 : 0;
    CheckShards(one, shards, static_cast<int>(one.Draw(1, 2)));
  }
  CHECK(empty > 100);
}

// Adds 1 to the mark of each element of a block, so a mark becomes the number of blocks that contain the element. Calls
// itself for each dim. at: the index of the first element to mark.
void Mark(const shampoo_block_info& block, int dim, int64_t at, std::vector<int>* marks) {
  if (dim == block.ndim) {
    ++marks->at(static_cast<size_t>(at));
    return;
  }
  for (int64_t i = 0; i < block.shape[dim]; ++i) Mark(block, dim + 1, at + i * block.stride[dim], marks);
}

TEST_CASE(
    "blocks of random shards contain each element exactly once, and equal the pieces if nothing is merged or split") {
  int shards = 0;
  for (uint64_t seed = 0; seed < 110; ++seed) {
    RandomShards random(seed);
    RankSpec spec;
    const bool whole = seed % 2 == 0;  // nothing is merged or split
    spec.keys = {{"use_merge_dims", whole || random.OneIn(2) ? "false" : "true"},
                 {"max_preconditioner_dim", std::to_string(whole ? 100 : random.Draw(1, 6))}};
    for (int i = 0; i < 100; ++i) {
      ParamSpec param{Name("p", static_cast<size_t>(i)), Shape(static_cast<size_t>(i % 5 + 1))};
      for (int64_t& dim : param.shape) dim = random.Draw(1, i % 5 < 2 ? 12 : 4);
      param.shard_form = 1;
      param.flat_offset = random.Draw(0, Product(param.shape));
      param.flat_count = random.Draw(0, Product(param.shape) - param.flat_offset);
      spec.params.push_back(param);
      ++shards;
    }
    const Rank rank(spec);
    RequireOk(rank);
    std::vector<std::vector<int>> marks;
    std::vector<std::vector<Shape>> shapes(spec.params.size());
    for (const ParamSpec& param : spec.params) marks.emplace_back(static_cast<size_t>(param.flat_count));
    for (const shampoo_block_info& block : BlocksOf(rank)) {
      const auto p = static_cast<size_t>(block.param);
      Mark(block, 0, block.flat_offset, &marks[p]);
      shapes[p].emplace_back(block.shape, block.shape + block.ndim);
    }
    for (size_t p = 0; p < spec.params.size(); ++p) {
      const ParamSpec& param = spec.params[p];
      CHECK(marks[p] == std::vector<int>(marks[p].size(), 1));
      std::vector<Shape> pieces;
      AppendPieces(param.shape, param.flat_offset, param.flat_offset + param.flat_count, &pieces);
      if (whole) CHECK(shapes[p] == pieces);
    }
  }
  CHECK(shards >= 10000);
}

const RankSpec kLocalShards = {.keys = "max_preconditioner_dim=4 grafting=adam momentum=0.5",
                               .groups = {"lr=0.1"},
                               .params = {{"matrix", {9, 7}}, {"small", {2}, 1}, {"tensor", {3, 4, 2}}}};

TEST_CASE("NaN in one shard fails the step on all ranks and changes nothing") {
  for (const Division division : {Division::kFlat, Division::kRows}) {
    for (int nan_rank = 0; nan_rank < 4; ++nan_rank) {
      Grid grid(kLocalShards, 1, Divide(kLocalShards.params, division, 4));
      RequireStart(&grid);
      RunSteps(&grid, 2, 2);
      const size_t param = grid[nan_rank].g[0].empty() ? 2 : 0;
      if (grid[nan_rank].g[param].empty()) continue;
      grid[nan_rank].g[param][0] = NAN;
      CheckStepFails(&grid, SHAMPOO_E_NUMERIC,
                     {"shard rank " + std::to_string(nan_rank) + ": ", "the step has changed nothing"});
    }
  }
}

TEST_CASE("a group counts the same steps on all ranks, including ranks that hold none of its elements") {
  Grid grid(kLocalShards, 1, 4);
  RequireStart(&grid);
  CHECK(grid[3].w[1].empty());
  int64_t expected[2] = {0, 0};
  for (int t = 1; t <= 6; ++t) {
    const bool second_has_grad = t % 3 != 0;
    const bool first_has_grad = t != 4;
    grid.FillGradients(static_cast<uint64_t>(t));
    for (int rank = 0; rank < 4; ++rank) {
      grid[rank].has_grad[0] = grid[rank].has_grad[2] = first_has_grad;
      // For an empty shard, it does not matter whether the caller binds a gradient.
      if (!grid[rank].w[1].empty()) grid[rank].has_grad[1] = second_has_grad;
    }
    RequireStep(&grid);
    expected[0] += first_has_grad ? 1 : 0;
    expected[1] += second_has_grad ? 1 : 0;
    for (int rank = 0; rank < 4; ++rank) {
      CHECK(StepsOf(grid[rank], 0) == expected[0]);
      CHECK(StepsOf(grid[rank], 1) == expected[1]);
    }
  }
}

TEST_CASE("a step makes one exchange whose size does not depend on the sizes of parameters") {
  Grid grid(kLocalShards, 1, 4);
  RequireStart(&grid);
  grid.FillGradients(2);
  grid.comm().ResetCounts();
  for (int t = 0; t < 5; ++t) grid.Step();
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(grid.comm().calls(rank) == 5);
    CHECK(grid.comm().bytes_sent(rank) == 5 * 64);
  }
}

}  // namespace
}  // namespace shampoo_test

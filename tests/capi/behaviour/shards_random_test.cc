// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <list>

#include "tests/capi/behaviour/parts.h"

namespace shampoo_test {
namespace {

// Divides the elements [first, end) of a flattened tensor into rectangular pieces, and returns the shapes of the
// pieces. A slice of dim k contains all elements that have the same indices along the dims 0 to k. Each piece consists
// of consecutive slices of one dim k, as many as fit before `end` and into one slice of dim k - 1. Dim k is the
// outermost dim that has a slice which begins at the start of the piece and does not extend beyond `end`.
std::vector<std::vector<int64_t>> Pieces(const std::vector<int64_t>& shape, int64_t first, int64_t end) {
  std::vector<std::vector<int64_t>> pieces;
  while (first < end) {
    std::vector<int64_t> piece = {end - first};
    for (size_t k = 0; k < shape.size(); ++k) {
      int64_t stride = 1;
      for (size_t i = k + 1; i < shape.size(); ++i) stride *= shape[i];
      if (first % stride != 0 || first + stride > end) continue;
      // A piece must not cross the border between two slices of dim k - 1.
      const int64_t slices = std::min((end - first) / stride, shape[k] - first / stride % shape[k]);
      piece = {slices};
      piece.insert(piece.end(), shape.begin() + static_cast<int64_t>(k) + 1, shape.end());
      break;
    }
    int64_t elements = 1;
    for (const int64_t dim : piece) elements *= dim;
    first += elements;
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

Keys RandomKeys(std::mt19937_64& random) {
  return "momentum=0.5 epsilon=1e-3 precondition_frequency=2" +
         Keys{{"grafting", random() % 2 == 0 ? "adagrad" : "none"},
              {"use_merge_dims", random() % 2 == 0 ? "true" : "false"},
              {"max_preconditioner_dim", std::to_string(1 + random() % 9)}};
}

TEST_CASE("steps of a random flat shard are bit-identical to steps of its pieces as separate parameters") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    std::vector<int64_t> shape(1 + random() % 4);
    int64_t elements = 1;
    for (int64_t& dim : shape) elements *= dim = 1 + static_cast<int64_t>(random() % 6);
    // There are up to two stack dims. A shard may begin and end within a stacked tensor.
    const size_t stacked = shape.size() > 2 && round % 3 == 0 ? 1 + random() % 2 : 0;
    shampoo_param_desc desc = Param("w", shape);
    desc.stack_dims = static_cast<int32_t>(stacked);
    desc.shard_form = 1;
    desc.flat_offset = static_cast<int64_t>(random() % static_cast<uint64_t>(elements));
    desc.flat_count = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(elements - desc.flat_offset));

    const std::vector<int64_t> layer(shape.begin() + static_cast<int64_t>(stacked), shape.end());
    int64_t layer_elements = 1;
    for (const int64_t dim : layer) layer_elements *= dim;
    std::vector<shampoo_param_desc> params;
    std::list<std::string> names;
    const int64_t end = desc.flat_offset + desc.flat_count;
    for (int64_t first = desc.flat_offset; first < end;) {
      const int64_t base = first / layer_elements * layer_elements;
      const int64_t last = std::min(end, base + layer_elements);
      for (const std::vector<int64_t>& piece : Pieces(layer, first - base, last - base)) {
        names.push_back(std::to_string(params.size()));
        params.push_back(Param(names.back().c_str(), piece));
      }
      first = last;
    }
    const Keys keys = RandomKeys(random);
    Host one(keys, {desc});
    Host many(keys, params);
    CheckSame(&one, &many);
  }
}

TEST_CASE("steps of a stacked parameter are bit-identical to steps of its layers as separate parameters") {
  shampoo_param_desc stacked = Param("layers", {3, 5, 6});
  stacked.stack_dims = 1;
  const Keys keys = "grafting=rmsprop momentum=0.5 max_preconditioner_dim=4";
  Host one(keys, {stacked});
  Host many(keys, {Param("0", {5, 6}), Param("1", {5, 6}), Param("2", {5, 6})});
  CheckSame(&one, &many);
}

TEST_CASE("steps of a random rectangular shard are bit-identical to steps of a parameter with the shape of the shard") {
  std::mt19937_64 random(12);
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    std::vector<int64_t> shape(1 + random() % 4);
    std::vector<int64_t> local;
    for (int64_t& dim : shape) dim = 1 + static_cast<int64_t>(random() % 7);
    shampoo_param_desc desc = Param("w", shape);
    desc.shard_form = 2;
    for (size_t k = 0; k < shape.size(); ++k) {
      desc.local_offset[k] = static_cast<int64_t>(random() % static_cast<uint64_t>(shape[k]));
      desc.local_shape[k] = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(shape[k] - desc.local_offset[k]));
      local.push_back(desc.local_shape[k]);
    }
    shampoo_param_desc whole = Param("w", local);
    if (shape.size() > 1 && round % 3 == 0) desc.stack_dims = whole.stack_dims = 1;
    const Keys keys = RandomKeys(random);
    Host one(keys, {desc});
    Host many(keys, {whole});
    CheckSame(&one, &many);
  }
}

}  // namespace
}  // namespace shampoo_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/distributed/grid.h"

namespace shampoo_test {

using Shape = std::vector<int64_t>;

inline int64_t Product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Generates random numbers and random shards of parameters from a seed.
class RandomShards {
 public:
  explicit RandomShards(uint64_t seed) : random_(seed) {}

  int64_t Draw(int64_t least, int64_t largest) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(largest - least + 1));
  }
  bool OneIn(int64_t n) { return Draw(1, n) == 1; }
  std::string OneOf(const std::vector<const char*>& values) {
    return values[static_cast<size_t>(Draw(0, static_cast<int64_t>(values.size()) - 1))];
  }
  // Divides `count` items into `parts` consecutive parts of random sizes. Parts may be empty. Returns the borders of
  // the parts, from 0 to `count`.
  std::vector<int64_t> Borders(int64_t count, int64_t parts) {
    std::vector<int64_t> borders = {0, count};
    while (static_cast<int64_t>(borders.size()) <= parts) borders.push_back(Draw(0, count));
    std::sort(borders.begin(), borders.end());
    return borders;
  }
  std::vector<size_t> ShuffledRanks(size_t ranks) {
    std::vector<size_t> order(ranks);
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }
  // Divides parameter p into flat shards or, if `flat` is false, along a random dim. Before the call, every rank must
  // hold the whole parameter. The shards have random sizes and are assigned to the ranks in random order.
  void Cut(size_t p, bool flat, Shards* shards) {
    const Shape shape = (*shards)[0][p].shape;
    const auto dim = flat ? 0 : static_cast<size_t>(Draw(0, static_cast<int64_t>(shape.size()) - 1));
    const auto borders = Borders(flat ? Product(shape) : shape[dim], static_cast<int64_t>(shards->size()));
    const std::vector<size_t> order = ShuffledRanks(shards->size());
    for (size_t i = 0; i < order.size(); ++i) {
      ParamSpec& param = (*shards)[order[i]][p];
      const int64_t count = borders[i + 1] - borders[i];
      flat ? param.CutFlat(borders[i], count) : param.CutAlong(dim, borders[i], count);
    }
  }

 private:
  std::mt19937_64 random_;
};

// A random model of up to three parameters.
struct RandomCase : RandomShards {
  explicit RandomCase(uint64_t seed) : RandomShards(seed) {
    spec.keys = {{"grafting", OneOf({"adagrad", "none"})},
                 {"momentum", OneOf({"0.5", "0"})},
                 {"epsilon", "1e-3"},
                 {"use_merge_dims", OneOf({"true", "false"})},
                 {"max_preconditioner_dim", std::to_string(Draw(1, 9))}};
    const int64_t params = Draw(1, 3);
    for (int64_t p = 0; p < params; ++p) {
      Shape shape(static_cast<size_t>(seed % 5 + 1));
      for (int64_t& dim : shape) dim = Draw(1, shape.size() <= 2 ? 9 : 4);
      spec.params.push_back({"p" + std::to_string(p), shape});
    }
  }

  // Divides all parameters among the ranks. is_flat() is called for each parameter and returns whether the parameter is
  // divided into flat shards.
  template <typename IsFlat>
  Shards CutAll(int64_t ranks, IsFlat&& is_flat) {
    Shards shards(static_cast<size_t>(ranks), spec.params);
    for (size_t p = 0; p < spec.params.size(); ++p) Cut(p, is_flat(), &shards);
    return shards;
  }

  RankSpec spec;
};

}  // namespace shampoo_test

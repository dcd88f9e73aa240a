// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/distributed/grid.h"

namespace shampoo_test {

// A model, and jobs that train it: all from a seed.
class RandomModel {
 public:
  explicit RandomModel(uint64_t seed);

  // How a job is made: of copies and shards, in shards of any form, with blocks of its own choice.
  struct World {
    RankSpec spec;
    int copies = 1;
    Shards shards;
    bool drops_momentum = false;  // which the model has
  };
  // may_drop: a job that loads may do without a state that was saved.
  World Draw(bool may_drop, const char* on_block_mismatch);

  int64_t Draw(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  bool OneIn(int64_t n) { return Draw(1, n) == 1; }

 private:
  Keys GroupKeys();
  Keys BlockKeys();
  Shards Cut(int64_t ranks);
  void CutParam(size_t p, Shards* shards);

  std::mt19937_64 random_;
  std::vector<ParamSpec> params_;
  std::vector<Keys> groups_;
};

}  // namespace shampoo_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/distributed/grid.h"

namespace shampoo_test {

// A random model and random jobs that train it, generated from a seed.
class RandomModel {
 public:
  explicit RandomModel(uint64_t seed);

  // The layout of a job: its replicas, its shards of any form, and its blocks.
  struct World {
    RankSpec spec;
    int copies = 1;
    Shards shards;
    bool drops_momentum = false;  // the state momentum of the model is not loaded
  };
  // may_drop: a loading job may lack a state that was saved.
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

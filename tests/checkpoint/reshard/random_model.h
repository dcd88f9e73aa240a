// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tests/distributed/random_shards.h"

namespace shampoo_test {

// A random model and random jobs that train it, generated from a seed.
class RandomModel : public RandomShards {
 public:
  explicit RandomModel(uint64_t seed);

  // The layout of a job: the number of replicas, the shards of each rank, and the keys that determine the blocks.
  struct World {
    RankSpec spec;
    int replicas = 1;
    Shards shards;
    bool drops_momentum = false;  // if true, the job has no momentum, so the momentum of the checkpoint is not loaded
  };
  // Draws the layout of a job. drops_momentum can be true only if may_drop is true.
  World DrawWorld(bool may_drop, const char* on_block_mismatch);

 private:
  Keys GroupKeys();
  Keys BlockKeys();
  Shards CutAll(int64_t ranks);
  void CutParam(size_t p, Shards* shards);

  std::vector<ParamSpec> params_;
  std::vector<Keys> groups_;
};

}  // namespace shampoo_test

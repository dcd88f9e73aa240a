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

  // The layout of a job: its replicas, its shards of any form, and its blocks.
  struct World {
    RankSpec spec;
    int replicas = 1;
    Shards shards;
    bool drops_momentum = false;  // the job has no momentum, so the momentum of the checkpoint is not loaded
  };
  // may_drop: the job may be one without momentum (drops_momentum).
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

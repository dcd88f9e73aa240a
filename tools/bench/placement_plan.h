// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <cstdint>
#include <memory>
#include <string>

#include "tools/bench/placement_options.h"

namespace bench {

// The plan of a model on the first rank, which holds the first shard of each parameter. With shard_mode=local, each
// parameter is divided along its first dim. With shard_mode=gather, each flattened parameter is divided. The last
// shards may be shorter than the first.
class ModelPlan {
 public:
  ModelPlan(const Case& shapes, int replicas, int shards, const std::string& balance, const PlacementOptions& options);

  // Returns a size in bytes. rank, what: as for shampoo_plan_bytes().
  int64_t Bytes(int rank, const char* what) const;
  int64_t BlockCount() const;
  shampoo_block_info Block(int64_t index) const;
  double RefreshesOfStep() const { return refreshes_of_step_; }  // mean number of root refreshes of a block per step

 private:
  struct Destroy {
    void operator()(shampoo_plan* plan) const { shampoo_plan_destroy(plan); }
  };
  std::unique_ptr<shampoo_plan, Destroy> plan_;
  double refreshes_of_step_ = 0;
};

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/placement_shards.h"

#include <algorithm>
#include <vector>

#include "tools/bench/placement_plan.h"

namespace bench {
namespace {

Load LoadOf(const ModelPlan& plan, int world, const std::string& what) {
  std::vector<double> ranks;
  for (int rank = 0; rank < world; ++rank) ranks.push_back(static_cast<double>(plan.Bytes(rank, what.c_str())));
  return Load::Of(ranks);
}

ShardsLoad ShardsLoadOf(const ModelPlan& plan, int world, const std::string& suffix) {
  return {LoadOf(plan, world, "comm" + suffix), LoadOf(plan, world, "workspace" + suffix),
          LoadOf(plan, world, "total" + suffix)};
}

}  // namespace

ShardsRow PlaceShards(const Model& model, int world, const std::string& balance, const PlacementOptions& options) {
  // One plan has the byte counts of all ranks.
  const ModelPlan plan(model.shapes, 1, world, balance, options);
  const ModelPlan alone(model.shapes, 1, 1, balance, options);
  ShardsRow row;
  row.world = world;
  row.balance = balance;
  row.elements = Parameters(model.shapes);
  row.blocks = plan.BlockCount();
  std::vector<bool> has_block(static_cast<size_t>(world));
  for (int64_t i = 0; i < row.blocks; ++i) has_block[static_cast<size_t>(plan.Block(i).shard_owner)] = true;
  row.idle = std::count(has_block.begin(), has_block.end(), false);
  row.state = LoadOf(plan, world, "state");
  row.all_to_all = ShardsLoadOf(plan, world, "");
  row.all_gather = ShardsLoadOf(plan, world, ".all_gather");
  row.alone_state = static_cast<double>(alone.Bytes(0, "state"));
  row.alone_workspace = static_cast<double>(alone.Bytes(0, "workspace"));
  return row;
}

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/placement_row.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/bench/placement_plan.h"

namespace bench {
namespace {

// Returns the mean seconds per step that a block costs its owner: factor update, preconditioning, elementwise work and
// roots. refreshes: mean number of root refreshes per step.
double BlockSeconds(const shampoo_block_info& block, double elements, double refreshes, const Rates& rates) {
  double products = 20 * elements;
  double roots = 0;
  for (int k = 0; k < block.ndim; ++k) {
    const auto d = static_cast<double>(block.shape[k]);
    products += 3 * d * elements;
    roots += 10 * d * d * d;
  }
  return products / rates.shampoo_flops + roots * refreshes / rates.root_flops;
}

double GatherSeconds(double ranks, double sent, const Rates& rates) {
  return (ranks - 1) * sent / rates.link_bytes + std::log2(ranks) * rates.latency;
}

}  // namespace

double TrainSeconds(const Model& model, const Rates& rates) {
  if (model.tokens == 0) return model.step_seconds;
  return 6 * static_cast<double>(Parameters(model.shapes)) * static_cast<double>(model.tokens) / rates.train_flops;
}

PlacementRow PlaceModel(const Model& model, int world, const std::string& balance, const PlacementOptions& options) {
  PlacementRow row;
  row.world = world;
  row.balance = balance;
  row.replicas = world / options.shards;
  if (options.group != 0) row.replicas = std::min(row.replicas, options.group);
  const ModelPlan plan(model.shapes, row.replicas, options.shards, balance, options);

  const auto ranks = static_cast<size_t>(row.replicas);
  std::vector<double> blocks(ranks), updates(ranks), state(ranks), compute(ranks);
  row.blocks = plan.BlockCount();
  for (int64_t i = 0; i < row.blocks; ++i) {
    const shampoo_block_info block = plan.Block(i);
    const int64_t elements = Elements({block.shape, block.shape + block.ndim});
    const auto owner = static_cast<size_t>(block.owner);
    row.elements += elements;
    row.blocks_state += block.state_bytes;
    blocks[owner] += 1;
    updates[owner] += static_cast<double>(elements);
    compute[owner] += BlockSeconds(block, static_cast<double>(elements), plan.RefreshesOfStep(), options.rates);
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    const int64_t bytes = plan.Bytes(static_cast<int>(rank), "state");
    row.ranks_state += bytes;
    state[rank] = static_cast<double>(bytes);
  }
  row.sent = plan.Bytes(0, "comm");

  row.idle = std::count(blocks.begin(), blocks.end(), 0.0);
  row.updates = Load::Of(updates);
  row.state = Load::Of(state);
  row.compute = Load::Of(compute);
  row.gather_seconds = GatherSeconds(row.replicas, static_cast<double>(row.sent), options.rates);
  row.train_seconds = TrainSeconds(model, options.rates);
  return row;
}

}  // namespace bench

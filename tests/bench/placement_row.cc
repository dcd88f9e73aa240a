// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/placement_row.h"

#include <shampoo/shampoo.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/bench/fail.h"

namespace bench {
namespace {

void Set(shampoo_config* config, const std::string& key, const std::string& value) {
  Try(shampoo_config_set_str(config, key.c_str(), value.c_str()));
}

shampoo_config* MakeConfig(const std::string& balance, const PlacementOptions& options) {
  shampoo_config* config = nullptr;
  Try(shampoo_config_create(&config));
  Set(config, "max_preconditioner_dim", std::to_string(options.block));
  Set(config, "precondition_frequency", std::to_string(options.frequency));
  Set(config, "grafting", options.grafting);
  Set(config, "balance", balance);
  for (const auto& [key, value] : options.keys) Set(config, key, value);
  return config;
}

// The first of `shards` pieces along dim 0, all of them as long but the last, which may be shorter or empty.
void CutFirstShard(int shards, shampoo_param_desc* param) {
  if (shards == 1) return;
  param->shard_form = 2;
  std::copy(param->shape, param->shape + param->ndim, param->local_shape);
  param->local_shape[0] = (param->shape[0] + shards - 1) / shards;
}

shampoo_plan* MakePlan(const Case& of, int replicas, const std::string& balance, const PlacementOptions& options) {
  shampoo_config* const config = MakeConfig(balance, options);
  shampoo_plan* plan = nullptr;
  shampoo_plan_desc place = SHAMPOO_PLAN_DESC_INIT;
  place.threads = 1;
  place.replica_world = replicas;
  place.shard_world = options.shards;
  Try(shampoo_plan_create(&plan, config, &place));
  for (const Tensor& tensor : of.tensors) {
    shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
    param.name = tensor.name.c_str();
    param.ndim = static_cast<int32_t>(tensor.shape.size());
    std::copy(tensor.shape.begin(), tensor.shape.end(), param.shape);
    CutFirstShard(options.shards, &param);
    Try(shampoo_plan_add_param(plan, &param, nullptr));
  }
  Try(shampoo_plan_finish(plan));
  shampoo_config_destroy(config);
  return plan;
}

// Of a mean step: factor update, preconditioning, elementwise work, and the part of the roots that falls to a step.
double BlockSeconds(const shampoo_block_info& block, double elements, int frequency, const Rates& rates) {
  double products = 20 * elements;
  double roots = 0;
  for (int k = 0; k < block.ndim; ++k) {
    const auto d = static_cast<double>(block.shape[k]);
    products += 3 * d * elements;
    roots += 10 * d * d * d;
  }
  return products / rates.shampoo_flops + roots / frequency / rates.root_flops;
}

double GatherSeconds(double ranks, double sent, const Rates& rates) {
  return (ranks - 1) * sent / rates.link_bytes + std::log2(ranks) * rates.latency;
}

Load LoadOf(const std::vector<double>& ranks) {
  return {*std::max_element(ranks.begin(), ranks.end()),
          std::accumulate(ranks.begin(), ranks.end(), 0.0) / static_cast<double>(ranks.size())};
}

}  // namespace

double TrainSeconds(const Model& model, const Rates& rates) {
  if (model.tokens == 0) return model.step_seconds;
  return 6 * static_cast<double>(Parameters(model.of)) * static_cast<double>(model.tokens) / rates.train_flops;
}

PlacementRow PlaceModel(const Model& model, int world, const std::string& balance, const PlacementOptions& options) {
  PlacementRow row;
  row.world = world;
  row.balance = balance;
  row.replicas = world / options.shards;
  if (options.group != 0) row.replicas = std::min(row.replicas, options.group);
  shampoo_plan* const plan = MakePlan(model.of, row.replicas, balance, options);

  const auto ranks = static_cast<size_t>(row.replicas);
  std::vector<double> blocks(ranks), updates(ranks), state(ranks), compute(ranks);
  Try(shampoo_plan_block_count(plan, &row.blocks));
  for (int64_t i = 0; i < row.blocks; ++i) {
    shampoo_block_info block = SHAMPOO_BLOCK_INFO_INIT;
    Try(shampoo_plan_block(plan, i, &block));
    const int64_t elements = Elements({block.shape, block.shape + block.ndim});
    const auto owner = static_cast<size_t>(block.owner);
    row.elements += elements;
    row.blocks_state += block.state_bytes;
    blocks[owner] += 1;
    updates[owner] += static_cast<double>(elements);
    compute[owner] += BlockSeconds(block, static_cast<double>(elements), options.frequency, options.rates);
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    int64_t bytes = 0;
    Try(shampoo_plan_bytes(plan, static_cast<int32_t>(rank), "state", &bytes));
    row.ranks_state += bytes;
    state[rank] = static_cast<double>(bytes);
  }
  Try(shampoo_plan_bytes(plan, 0, "comm", &row.sent));
  shampoo_plan_destroy(plan);

  row.idle = std::count(blocks.begin(), blocks.end(), 0.0);
  row.updates = LoadOf(updates);
  row.state = LoadOf(state);
  row.compute = LoadOf(compute);
  row.gather_seconds = GatherSeconds(row.replicas, static_cast<double>(row.sent), options.rates);
  row.train_seconds = TrainSeconds(model, options.rates);
  return row;
}

}  // namespace bench

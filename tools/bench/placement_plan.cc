// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/placement_plan.h"

#include <algorithm>

#include "core/rules/schedule.h"
#include "tools/bench/fail.h"

namespace bench {
namespace {

void Set(shampoo_config* config, const std::string& key, const std::string& value) {
  Try(shampoo_config_set_str(config, key.c_str(), value.c_str()));
}

shampoo_config* MakeConfig(const std::string& balance, const PlacementOptions& options) {
  shampoo_config* config = nullptr;
  Try(shampoo_config_create(&config));
  Set(config, "preset", options.preset);
  Set(config, "max_preconditioner_dim", std::to_string(options.block));
  Set(config, "precondition_frequency", std::to_string(options.frequency));
  Set(config, "grafting", options.grafting);
  Set(config, "balance", balance);
  Set(config, "shard_mode", options.gather ? "gather" : "local");
  for (const auto& [key, value] : options.keys) Set(config, key, value);
  return config;
}

// Returns the mean number of root refreshes of a block per step, over the first options.steps steps of a run.
double MeanRefreshes(const shampoo_config* config, const PlacementOptions& options) {
  const auto number = [config](const char* key) { return std::stod(shampoo_config_get(config, key)); };
  shampoo::RefreshKeys keys;
  keys.frequency = options.frequency;
  keys.growth = number("refresh_growth");
  keys.start = static_cast<int64_t>(number("start_preconditioning_step"));
  if (keys.start < 1) keys.start = keys.growth > 0 ? 1 : keys.frequency;
  return static_cast<double>(shampoo::RefreshCount(keys, options.steps)) / options.steps;
}

int64_t LengthOfFirst(int64_t length, int64_t shards) { return (length + shards - 1) / shards; }

// Sets the shard of `param` to the first of `shards` chunks. All chunks are equally long, except that the last ones may
// be shorter or empty. flat: whether the flattened parameter is divided, instead of the first dim.
void SetFirstShard(int shards, bool flat, shampoo_param_desc* param) {
  if (shards == 1) return;
  if (flat) {
    param->shard_form = 1;
    param->flat_count = LengthOfFirst(Elements({param->shape, param->shape + param->ndim}), shards);
    return;
  }
  param->shard_form = 2;
  std::copy(param->shape, param->shape + param->ndim, param->local_shape);
  param->local_shape[0] = LengthOfFirst(param->shape[0], shards);
}

}  // namespace

ModelPlan::ModelPlan(const Case& shapes, int replicas, int shards, const std::string& balance,
                     const PlacementOptions& options) {
  shampoo_config* const config = MakeConfig(balance, options);
  shampoo_plan* plan = nullptr;
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  plan_desc.threads = 1;
  plan_desc.replica_world = replicas;
  plan_desc.shard_world = shards;
  Try(shampoo_plan_create(&plan, config, &plan_desc));
  plan_.reset(plan);
  for (const Tensor& tensor : shapes.tensors) {
    shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
    param.name = tensor.name.c_str();
    param.ndim = static_cast<int32_t>(tensor.shape.size());
    std::copy(tensor.shape.begin(), tensor.shape.end(), param.shape);
    SetFirstShard(shards, options.gather, &param);
    Try(shampoo_plan_add_param(plan, &param, nullptr));
  }
  Try(shampoo_plan_finish(plan));
  refreshes_of_step_ = MeanRefreshes(config, options);
  shampoo_config_destroy(config);
}

int64_t ModelPlan::Bytes(int rank, const char* what) const {
  int64_t bytes = 0;
  Try(shampoo_plan_bytes(plan_.get(), rank, what, &bytes));
  return bytes;
}

int64_t ModelPlan::BlockCount() const {
  int64_t count = 0;
  Try(shampoo_plan_block_count(plan_.get(), &count));
  return count;
}

shampoo_block_info ModelPlan::Block(int64_t index) const {
  shampoo_block_info block = SHAMPOO_BLOCK_INFO_INIT;
  Try(shampoo_plan_block(plan_.get(), index, &block));
  return block;
}

}  // namespace bench

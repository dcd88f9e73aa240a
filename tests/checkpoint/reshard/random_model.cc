// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/reshard/random_model.h"

#include <string>

namespace shampoo_test {

RandomModel::RandomModel(uint64_t seed) : RandomShards(seed) {
  const int64_t groups = Draw(1, 2);
  for (int64_t g = 0; g < groups; ++g) groups_.push_back(GroupKeys());
  const int64_t params = Draw(groups, 3);
  for (int64_t p = 0; p < params; ++p) {
    Shape shape(OneIn(12) ? 0 : seed % 5 + 1);
    for (int64_t& dim : shape) dim = OneIn(4) ? 1 : Draw(1, shape.size() <= 2 ? 9 : 4);
    if (!shape.empty() && OneIn(20)) shape.back() = 0;
    ParamSpec& param = params_.emplace_back(ParamSpec{"p" + std::to_string(p), shape});
    param.group = static_cast<int32_t>(p % groups);
    if (!shape.empty() && OneIn(4))
      param.stack_dims = static_cast<int32_t>(Draw(0, static_cast<int64_t>(shape.size())));
  }
}

// Returns keys that determine the states of a group.
Keys RandomModel::GroupKeys() {
  Keys keys = {{"grafting", OneOf({"none", "sgd", "adagrad", "rmsprop", "adam"})},
               {"momentum", OneOf({"0", "0.5"})},
               {"beta1", OneOf({"0", "0.9"})},
               {"initial_inverse", OneOf({"identity", "zero"})},
               {"epsilon", "1e-3"}};
  for (const char* const dtype :
       {"factor_dtype", "inverse_dtype", "filtered_grad_dtype", "momentum_dtype", "grafting_dtype"}) {
    keys.emplace_back(dtype, OneOf({"auto", "f32", "f64", "f16", "bf16"}));
  }
  return keys;
}

// Returns keys that determine the blocks of a group.
Keys RandomModel::BlockKeys() {
  return {{"use_merge_dims", OneIn(2) ? "true" : "false"},
          {"max_preconditioner_dim", std::to_string(OneIn(2) ? 4 : Draw(1, 9))}};
}

RandomModel::World RandomModel::DrawWorld(bool may_drop, const char* on_block_mismatch) {
  World world;
  world.replicas = static_cast<int>(Draw(1, 3));
  world.shards = CutAll(Draw(1, 4));
  RankSpec& spec = world.spec;
  spec.params = params_;
  const bool gathers = OneIn(2);
  const Keys of_all = {{"shard_mode", gathers ? "gather" : "local"},
                       {"balance", OneIn(2) ? "bytes" : "cost"},
                       {"on_block_mismatch", on_block_mismatch}};
  world.drops_momentum = may_drop && OneIn(8);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Keys keys = groups_[g] + BlockKeys() + (world.drops_momentum ? Keys("momentum=0") : Keys{});
    if (g == 0) {
      spec.keys = keys + of_all;
    } else {
      spec.groups.push_back(keys);
    }
  }
  if (gathers && world.shards.size() > 1) spec.all_shards = world.shards;
  spec.threads = static_cast<int32_t>(Draw(1, 2));
  return world;
}

Shards RandomModel::CutAll(int64_t ranks) {
  Shards shards(static_cast<size_t>(ranks), params_);
  for (size_t p = 0; p < params_.size() && ranks > 1; ++p) {
    if (!OneIn(6)) CutParam(p, &shards);  // some parameters are whole on every rank
  }
  return shards;
}

// Divides a parameter along one dim, along two dims, or into flat shards.
void RandomModel::CutParam(size_t p, Shards* shards) {
  const Shape& shape = params_[p].shape;
  if (shards->size() != 4 || shape.size() < 2 || !OneIn(3)) return Cut(p, shape.empty() || OneIn(2), shards);
  const auto first = Borders(shape[0], 2);
  const auto second = Borders(shape[1], 2);
  const std::vector<size_t> order = ShuffledRanks(4);
  for (size_t i = 0; i < 4; ++i) {
    ParamSpec& param = (*shards)[order[i]][p];
    param.CutAlong(0, first[i / 2], first[i / 2 + 1] - first[i / 2]);
    param.CutAlong(1, second[i % 2], second[i % 2 + 1] - second[i % 2]);
  }
}

}  // namespace shampoo_test

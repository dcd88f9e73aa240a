// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/reshard/random_model.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

namespace shampoo_test {
namespace {

using Shape = std::vector<int64_t>;

int64_t Product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

RandomModel::RandomModel(uint64_t seed) : random_(seed) {
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
  const auto one_of = [this](const std::vector<const char*>& values) {
    return std::string(values[static_cast<size_t>(Draw(0, static_cast<int64_t>(values.size()) - 1))]);
  };
  Keys keys = {{"grafting", one_of({"none", "sgd", "adagrad", "rmsprop", "adam"})},
               {"momentum", one_of({"0", "0.5"})},
               {"beta1", one_of({"0", "0.9"})},
               {"initial_inverse", one_of({"identity", "zero"})},
               {"epsilon", "1e-3"}};
  for (const char* const dtype :
       {"factor_dtype", "inverse_dtype", "filtered_grad_dtype", "momentum_dtype", "grafting_dtype"}) {
    keys.emplace_back(dtype, one_of({"auto", "f32", "f64", "f16", "bf16"}));
  }
  return keys;
}

// Returns keys that determine the blocks of a group.
Keys RandomModel::BlockKeys() {
  return {{"use_merge_dims", OneIn(2) ? "true" : "false"},
          {"max_preconditioner_dim", std::to_string(OneIn(2) ? 4 : Draw(1, 9))}};
}

RandomModel::World RandomModel::Draw(bool may_drop, const char* on_block_mismatch) {
  World world;
  world.copies = static_cast<int>(Draw(1, 3));
  world.shards = Cut(Draw(1, 4));
  RankSpec& spec = world.spec;
  spec.params = params_;
  const bool gathers = OneIn(2);
  const Keys of_all = {{"shard_mode", gathers ? "gather" : "local"},
                       {"balance", OneIn(2) ? "bytes" : "cost"},
                       {"on_block_mismatch", on_block_mismatch}};
  world.drops_momentum = may_drop && OneIn(8);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Keys keys = groups_[g] + BlockKeys() + (world.drops_momentum ? Keys{{"momentum", "0"}} : Keys{});
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

Shards RandomModel::Cut(int64_t ranks) {
  Shards shards(static_cast<size_t>(ranks), params_);
  for (size_t p = 0; p < params_.size() && ranks > 1; ++p) {
    if (!OneIn(6)) CutParam(p, &shards);  // some parameters are whole on every rank
  }
  return shards;
}

// Divides a parameter flat or along any dim, into parts of any size on ranks in any order, or along two dims. Some
// parts may be empty.
void RandomModel::CutParam(size_t p, Shards* shards) {
  const Shape& shape = params_[p].shape;
  const auto ranks = static_cast<int64_t>(shards->size());
  const auto cuts_of = [this](int64_t count, int64_t parts) {
    std::vector<int64_t> cuts = {0, count};
    while (static_cast<int64_t>(cuts.size()) <= parts) cuts.push_back(Draw(0, count));
    std::sort(cuts.begin(), cuts.end());
    return cuts;
  };
  std::vector<size_t> order(shards->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random_);
  if (ranks == 4 && shape.size() >= 2 && OneIn(3)) {
    const auto first = cuts_of(shape[0], 2);
    const auto second = cuts_of(shape[1], 2);
    for (size_t i = 0; i < 4; ++i) {
      ParamSpec& param = (*shards)[order[i]][p];
      param.CutAlong(0, first[i / 2], first[i / 2 + 1] - first[i / 2]);
      param.local_offset[1] = second[i % 2];
      param.local_shape[1] = second[i % 2 + 1] - second[i % 2];
    }
    return;
  }
  const bool flat = shape.empty() || OneIn(2);
  const auto dim = flat ? 0 : static_cast<size_t>(Draw(0, static_cast<int64_t>(shape.size()) - 1));
  const auto cuts = cuts_of(flat ? Product(shape) : shape[dim], ranks);
  for (size_t i = 0; i < shards->size(); ++i) {
    ParamSpec& param = (*shards)[order[i]][p];
    if (flat) {
      param.CutFlat(cuts[i], cuts[i + 1] - cuts[i]);
    } else {
      param.CutAlong(dim, cuts[i], cuts[i + 1] - cuts[i]);
    }
  }
}

}  // namespace shampoo_test

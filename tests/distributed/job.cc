// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/distributed/job.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/preset.h"

namespace shampoo_test {

int64_t ParamSpec::Elements() const {
  if (shard_form == 1) return flat_count;
  int64_t elements = 1;
  for (const int64_t dim : shard_form == 2 ? local_shape : shape) elements *= dim;
  return elements;
}

void ParamSpec::CutFlat(int64_t first, int64_t count) {
  shard_form = 1;
  flat_offset = first;
  flat_count = count;
}

void ParamSpec::CutAlong(size_t dim, int64_t first, int64_t count) {
  if (shard_form != 2) {
    shard_form = 2;
    local_offset.assign(shape.size(), 0);
    local_shape = shape;
  }
  local_offset[dim] = first;
  local_shape[dim] = count;
}

namespace {

shampoo_param_desc DescOf(const ParamSpec& param) {
  shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
  desc.name = param.name.c_str();
  desc.ndim = static_cast<int32_t>(param.shape.size());
  desc.stack_dims = param.stack_dims;
  desc.fan = param.fan;
  std::copy(param.row_splits.begin(), param.row_splits.end(), desc.row_splits);
  desc.param_dtype = param.dtype;
  desc.group = param.group;
  desc.shard_form = param.shard_form;
  desc.flat_offset = param.flat_offset;
  desc.flat_count = param.flat_count;
  for (size_t k = 0; k < param.shape.size(); ++k) desc.shape[k] = param.shape[k];
  for (size_t k = 0; k < param.local_shape.size(); ++k) {
    desc.local_offset[k] = param.local_offset[k];
    desc.local_shape[k] = param.local_shape[k];
  }
  return desc;
}

}  // namespace

Rank::Rank(const RankSpec& spec) { Build(spec); }

Rank::~Rank() {
  shampoo_optimizer_destroy(optimizer);
  shampoo_plan_destroy(plan);
  shampoo_comm_destroy(world);
}

bool Rank::Try(shampoo_status result) {
  status = result;
  error = result == SHAMPOO_OK ? "" : shampoo_last_error();
  return result == SHAMPOO_OK;
}

void Rank::Build(const RankSpec& spec) {
  const auto config_of = [this](const Keys& keys) {
    shampoo_config* config = nullptr;
    Try(shampoo_config_create(&config));
    Try(SetPreset(config));
    for (const auto& [key, value] : keys) {
      if (!Try(shampoo_config_set_str(config, key.c_str(), value.c_str()))) break;
    }
    return config;
  };
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  plan_desc.threads = spec.threads;
  plan_desc.replica_rank = spec.replica_rank;
  plan_desc.replica_world = spec.replica_world;
  plan_desc.shard_rank = spec.shard_rank;
  plan_desc.shard_world = spec.shard_world;
  shampoo_config* config = config_of(spec.keys);
  bool ok = status == SHAMPOO_OK && Try(shampoo_plan_create(&plan, config, &plan_desc));
  if (spec.world_ops != nullptr) ok = ok && Try(shampoo_comm_from_ops(&world, spec.world_ops));
  shampoo_config_destroy(config);
  for (const Keys& keys : spec.groups) {
    config = config_of(keys);
    ok = ok && status == SHAMPOO_OK && Try(shampoo_plan_add_group(plan, config, nullptr));
    shampoo_config_destroy(config);
  }
  for (size_t p = 0; p < spec.params.size(); ++p) {
    const ParamSpec& param = spec.params[p];
    const shampoo_param_desc desc = DescOf(param);
    ok = ok && Try(shampoo_plan_add_param(plan, &desc, nullptr));
    for (size_t shard = 0; shard < spec.all_shards.size(); ++shard) {
      const shampoo_param_desc of_shard = DescOf(spec.all_shards[shard][p]);
      ok = ok && Try(shampoo_plan_add_shard(plan, static_cast<int32_t>(p), static_cast<int32_t>(shard), &of_shard));
    }
    w.emplace_back(static_cast<size_t>(param.Elements()));
    g.emplace_back(static_cast<size_t>(param.Elements()));
    has_grad.push_back(true);
  }
  if (!ok || !Try(shampoo_plan_finish(plan))) return;
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  desc.allocator = spec.allocator;
  desc.device_id = spec.device_id;
  if (spec.replica_ops != nullptr) ok = Try(shampoo_comm_from_ops(&desc.replica_comm, spec.replica_ops));
  if (ok && spec.shard_ops != nullptr) ok = Try(shampoo_comm_from_ops(&desc.shard_comm, spec.shard_ops));
  shampoo_comm* const own = desc.replica_comm;
  shampoo_comm* const own_shards = desc.shard_comm;
  if (spec.replica_comm != nullptr) desc.replica_comm = spec.replica_comm;
  if (spec.shard_comm != nullptr) desc.shard_comm = spec.shard_comm;
  if (ok) Try(shampoo_optimizer_create(&optimizer, plan, &desc));
  // The optimizer has its own references to the communicators.
  shampoo_comm_destroy(own);
  shampoo_comm_destroy(own_shards);
}

void Rank::Step() {
  buffers_.assign(w.size(), SHAMPOO_BUFFERS_INIT);
  static float nothing[1];  // the address for empty shards, whose data() may be nullptr
  for (size_t p = 0; p < w.size(); ++p) {
    buffers_[p].param = buffers_[p].out = w[p].empty() ? nothing : w[p].data();
    buffers_[p].grad = !has_grad[p] ? nullptr : g[p].empty() ? nothing : g[p].data();
  }
  if (!Try(shampoo_optimizer_bind(optimizer, 0, static_cast<int32_t>(w.size()), buffers_.data()))) return;
  Try(shampoo_optimizer_step(optimizer, stream));
}

void Rank::Export(double blend, std::vector<std::vector<float>>* weights) {
  *weights = w;
  static float nothing[1];
  std::vector<void*> addresses;
  for (std::vector<float>& one : *weights) {
    std::fill(one.begin(), one.end(), -1.0f);
    addresses.push_back(one.empty() ? nothing : one.data());
  }
  Try(shampoo_optimizer_export(optimizer, blend, static_cast<int32_t>(addresses.size()), addresses.data()));
}

void Rank::Save(const std::string& directory) { Try(shampoo_save(&optimizer, 1, world, directory.c_str(), nullptr)); }

void Rank::Load(const std::string& directory) { Try(shampoo_load(&optimizer, 1, world, directory.c_str(), nullptr)); }

int64_t Rank::PlanBytes(const char* what, int rank) const {
  int64_t bytes = -1;
  return shampoo_plan_bytes(plan, rank, what, &bytes) == SHAMPOO_OK ? bytes : -1;
}

double Rank::Stat(const char* key) const {
  double value = -1;
  return shampoo_optimizer_stat(optimizer, key, &value) == SHAMPOO_OK ? value : -1;
}

std::vector<StateEntry> EntriesOf(const Rank& rank) {
  int64_t count = 0;
  shampoo_state_count(rank.optimizer, &count);
  std::vector<StateEntry> entries;
  for (int64_t i = 0; i < count; ++i) {
    StateEntry& entry = entries.emplace_back(StateEntry{SHAMPOO_STATE_ENTRY_INIT, i, 1});
    shampoo_state_describe(rank.optimizer, i, &entry);
    for (int k = 0; k < entry.ndim; ++k) entry.elements *= entry.shape[k];
  }
  return entries;
}

std::vector<char> ReadBytes(const Rank& rank, const StateEntry& entry) {
  std::vector<char> bytes(static_cast<size_t>(entry.elements) * sizeof(double));
  const shampoo_status status = shampoo_state_read(rank.optimizer, entry.index, 0, entry.elements, bytes.data(),
                                                   bytes.size(), SHAMPOO_CPU, nullptr);
  return status == SHAMPOO_OK ? bytes : std::vector<char>();
}

std::vector<shampoo_block_info> BlocksOf(const Rank& rank) {
  int64_t count = 0;
  if (shampoo_plan_block_count(rank.plan, &count) != SHAMPOO_OK) return {};
  std::vector<shampoo_block_info> blocks(static_cast<size_t>(count), SHAMPOO_BLOCK_INFO_INIT);
  for (int64_t i = 0; i < count; ++i) {
    if (shampoo_plan_block(rank.plan, i, &blocks[static_cast<size_t>(i)]) != SHAMPOO_OK) return {};
  }
  return blocks;
}

void Fill(uint64_t seed, std::vector<std::vector<float>>* tensors) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (std::vector<float>& tensor : *tensors) {
    for (float& value : tensor) value = normal(random);
  }
}

bool SameBits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return false;
    if (!a[i].empty() && std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace shampoo_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/replay_optimizer.h"

#include <algorithm>
#include <stdexcept>

#include "tests/golden/case_config.h"
#include "tests/golden/later_release.h"
#include "tests/golden/perturb.h"

namespace shampoo::golden {
namespace {

Config ConfigOf(const nlohmann::json& settings, const nlohmann::json& group) {
  if (settings.at("suite") != "trajectory_extra") {
    Config config = GroupConfig(group);
    if (const auto ema = settings.find("weight_ema"); ema != settings.end() && !ema->is_null()) {
      config.Set("weight_ema", ema->at("decay"));
      config.Set("weight_ema_start", ema->at("start"));
    }
    return config;
  }
  const auto first = group.at("params").at(0).get<size_t>();
  return LaterReleaseConfig(group, static_cast<int>(settings.at("shapes").at(first).size()));
}

using nlohmann::json;

// Returns the index in "groups" of each parameter's group. Throws unless every parameter is in exactly one group.
std::vector<size_t> GroupOfParams(const json& settings) {
  const size_t count = settings.at("shapes").size();
  const json& groups = settings.at("groups");
  std::vector<size_t> group_of(count, groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const size_t p : groups[g].at("params").get<std::vector<size_t>>()) {
      const std::string who = "parameter " + std::to_string(p) + " of group " + std::to_string(g);
      if (p >= count) throw std::runtime_error(who + " has no shape");
      if (group_of[p] != groups.size())
        throw std::runtime_error(who + " is in group " + std::to_string(group_of[p]) + " too");
      group_of[p] = g;
    }
  }
  const auto missing = std::find(group_of.begin(), group_of.end(), groups.size());
  if (missing != group_of.end()) {
    throw std::runtime_error("parameter " + std::to_string(missing - group_of.begin()) + " is in no group");
  }
  return group_of;
}

// Sets the fields of desc that "param_keys" in the settings lists for this parameter.
void DescribeParam(const json& settings, size_t param, shampoo_param_desc* desc) {
  const auto of_params = settings.find("param_keys");
  const std::string index = std::to_string(param);
  if (of_params == settings.end() || !of_params->contains(index)) return;
  for (const auto& [key, value] : of_params->at(index).items()) {
    if (key == "stack_dims") {
      desc->stack_dims = value.get<int32_t>();
    } else if (key == "fan") {
      desc->fan = value.get<std::string>() == "in_out" ? SHAMPOO_IN_OUT : SHAMPOO_OUT_IN;
    } else if (key == "row_splits" && value.size() <= std::size(desc->row_splits)) {
      std::copy(value.begin(), value.end(), desc->row_splits);
    } else {
      throw std::runtime_error("parameter " + index + " has an unknown field " + key + " " + value.dump());
    }
  }
}

}  // namespace

ReplayOptimizer::ReplayOptimizer(const json& settings, const TensorFile& data, const RankPlacement& placement,
                                 int32_t threads, const std::vector<std::pair<std::string, std::string>>& keys)
    : placement_(placement), keys_(keys) {
  const std::string dtype = DtypeOfParameters(settings.at("param_dtype").get<std::string>());
  const auto shapes = settings.at("shapes").get<std::vector<std::vector<int64_t>>>();
  for (size_t p = 0; p < shapes.size(); ++p) {
    const Tensor& init = data.At("init/" + std::to_string(p));
    if (init.dtype != dtype || init.shape != shapes[p]) {
      throw std::runtime_error("init/" + std::to_string(p) + " differs from the case's shapes or param_dtype");
    }
    ranges_.push_back(RangeOf(init.shape));
    const auto size = static_cast<int64_t>(ElementSize(init.dtype));
    const auto first = init.bytes.begin() + ranges_[p].first * size;
    Tensor param{init.dtype, init.shape, {}};
    // The library needs an address even for a parameter without elements.
    param.bytes.reserve(std::max(init.bytes.size(), sizeof(double)));
    param.bytes.assign(first, first + ranges_[p].count * size);
    params_.push_back(std::move(param));
  }
  try {
    if (placement_.device != nullptr) AllocateOnDevice();
    Build(settings, threads);
  } catch (...) {  // the destructor does not run if the constructor throws
    Destroy();
    throw;
  }
}

ReplayOptimizer::~ReplayOptimizer() { Destroy(); }

void ReplayOptimizer::Destroy() {
  shampoo_optimizer_destroy(optimizer_);
  shampoo_plan_destroy(plan_);
  shampoo_comm_destroy(world_);
  for (const OnDevice& buffers : on_device_) {
    placement_.device->Free(buffers.param);
    placement_.device->Free(buffers.grad);
  }
}

void ReplayOptimizer::AllocateOnDevice() {
  for (const Tensor& param : params_) {
    const size_t bytes = std::max(param.bytes.size(), sizeof(double));
    on_device_.emplace_back();
    on_device_.back().param = placement_.device->Allocate(bytes);
    on_device_.back().grad = placement_.device->Allocate(bytes);
    placement_.device->CopyTo(on_device_.back().param, param.bytes.data(), param.bytes.size());
  }
}

ReplayOptimizer::ShardRange ReplayOptimizer::RangeOf(const std::vector<int64_t>& shape) const {
  const int64_t elements = ElementCount(shape);
  if (placement_.shard_ops == nullptr) return {0, elements};
  const int64_t unit = placement_.rectangles && !shape.empty() && shape[0] > 0 ? elements / shape[0] : 1;
  const int64_t units = unit == 0 ? 0 : elements / unit;
  const int64_t each = (units + placement_.shard_ops->world - 1) / placement_.shard_ops->world;
  const int64_t first = std::min(each * placement_.shard_ops->rank, units);
  return {first * unit, std::min(each, units - first) * unit};
}

void ReplayOptimizer::Build(const json& settings, int32_t threads) {
  const json& groups = settings.at("groups");
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  plan_desc.threads = threads;
  if (placement_.device != nullptr) plan_desc.device_type = placement_.device->type();
  if (placement_.replica_ops != nullptr) {
    plan_desc.replica_rank = placement_.replica_ops->rank;
    plan_desc.replica_world = placement_.replica_ops->world;
  }
  if (placement_.shard_ops != nullptr) {
    plan_desc.shard_rank = placement_.shard_ops->rank;
    plan_desc.shard_world = placement_.shard_ops->world;
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    Config config = ConfigOf(settings, groups[g]);
    for (const auto& [key, value] : keys_) config.Set(key, value);
    int32_t id = 0;  // the group that shampoo_plan_create creates
    if (g == 0) {
      Check(shampoo_plan_create(&plan_, config.Get(), &plan_desc), "shampoo_plan_create");
    } else {
      Check(shampoo_plan_add_group(plan_, config.Get(), &id), "shampoo_plan_add_group");
    }
    group_ids_.push_back(id);
  }
  AddParams(settings);
  Check(shampoo_plan_finish(plan_), "shampoo_plan_finish");
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  if (placement_.device != nullptr) {
    desc.device_type = placement_.device->type();
    desc.stream = placement_.device->stream();
  }
  if (placement_.replica_ops != nullptr) {
    Check(shampoo_comm_from_ops(&desc.replica_comm, placement_.replica_ops), "shampoo_comm_from_ops");
  }
  if (placement_.shard_ops != nullptr) {
    Check(shampoo_comm_from_ops(&desc.shard_comm, placement_.shard_ops), "shampoo_comm_from_ops");
  }
  const shampoo_status status = shampoo_optimizer_create(&optimizer_, plan_, &desc);
  const std::string error = shampoo_last_error();
  shampoo_comm_destroy(desc.replica_comm);
  shampoo_comm_destroy(desc.shard_comm);
  if (status != SHAMPOO_OK) throw std::runtime_error("shampoo_optimizer_create: " + error);
  if (placement_.world_ops != nullptr)
    Check(shampoo_comm_from_ops(&world_, placement_.world_ops), "shampoo_comm_from_ops");
}

void ReplayOptimizer::AddParams(const json& settings) {
  const std::vector<size_t> group_of = GroupOfParams(settings);
  for (size_t p = 0; p < params_.size(); ++p) {
    const std::string name = "p" + std::to_string(p);
    const std::vector<int64_t>& shape = params_[p].shape;
    shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
    if (shape.size() > std::size(desc.shape)) throw std::runtime_error("parameter " + name + " has more than 8 dims");
    desc.name = name.c_str();
    desc.ndim = static_cast<int32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), desc.shape);
    desc.param_dtype = desc.grad_dtype = DtypeCode(params_[p].dtype);
    desc.group = group_ids_[group_of[p]];
    DescribeParam(settings, p, &desc);
    if (placement_.shard_ops != nullptr && placement_.rectangles && !shape.empty()) {
      const int64_t row = shape[0] > 0 ? std::max<int64_t>(ElementCount(shape) / shape[0], 1) : 1;
      desc.shard_form = 2;
      std::copy(shape.begin(), shape.end(), desc.local_shape);
      desc.local_offset[0] = ranges_[p].first / row;
      desc.local_shape[0] = ranges_[p].count / row;
    } else if (placement_.shard_ops != nullptr) {
      desc.shard_form = 1;
      desc.flat_offset = ranges_[p].first;
      desc.flat_count = ranges_[p].count;
    }
    int32_t index = -1;
    Check(shampoo_plan_add_param(plan_, &desc, &index), "shampoo_plan_add_param of " + name);
    if (index != static_cast<int32_t>(p)) {
      throw std::runtime_error("shampoo_plan_add_param has returned index " + std::to_string(index) + " for " + name);
    }
  }
}

void ReplayOptimizer::SetInGroups(const char* key, const std::vector<double>& values) {
  const std::string name = key;
  if (values.size() != group_ids_.size()) throw std::runtime_error(name + "_schedule needs one value for each group");
  for (size_t g = 0; g < values.size(); ++g) {
    Check(shampoo_optimizer_set(optimizer_, group_ids_[g], key, values[g]), "shampoo_optimizer_set of " + name);
  }
}

void ReplayOptimizer::Step(const std::vector<const void*>& gradients) {
  std::vector<shampoo_buffers> buffers(params_.size(), shampoo_buffers SHAMPOO_BUFFERS_INIT);
  for (size_t p = 0; p < params_.size(); ++p) {
    buffers[p].param = buffers[p].out = params_[p].bytes.data();
    const auto offset = static_cast<size_t>(ranges_[p].first) * ElementSize(params_[p].dtype);
    const auto* const gradient = static_cast<const std::byte*>(gradients.at(p));
    buffers[p].grad = gradient == nullptr ? nullptr : gradient + offset;
    if (placement_.device == nullptr) continue;
    buffers[p].param = buffers[p].out = on_device_[p].param;
    if (gradient == nullptr) continue;
    placement_.device->CopyTo(on_device_[p].grad, gradient + offset, params_[p].bytes.size());
    buffers[p].grad = on_device_[p].grad;
  }
  Check(shampoo_optimizer_bind(optimizer_, 0, static_cast<int32_t>(buffers.size()), buffers.data()),
        "shampoo_optimizer_bind");
  Check(shampoo_optimizer_step(optimizer_, Stream()), "shampoo_optimizer_step");
  for (size_t p = 0; p < on_device_.size(); ++p) {
    placement_.device->CopyFrom(params_[p].bytes.data(), on_device_[p].param, params_[p].bytes.size());
  }
}

void ReplayOptimizer::Export(double blend) {
  exported_ = params_;
  std::vector<void*> weights;
  for (size_t p = 0; p < exported_.size(); ++p) {
    Tensor& exported = exported_[p];
    std::fill(exported.bytes.begin(), exported.bytes.end(), std::byte{0xff});
    exported.bytes.reserve(sizeof(double));  // the library needs an address even for a shard without elements
    weights.push_back(placement_.device == nullptr ? exported.bytes.data() : on_device_[p].grad);
    if (placement_.device == nullptr) continue;
    placement_.device->CopyTo(weights[p], exported.bytes.data(), exported.bytes.size());
  }
  Check(shampoo_optimizer_export(optimizer_, blend, static_cast<int32_t>(weights.size()), weights.data()),
        "shampoo_optimizer_export");
  for (size_t p = 0; p < on_device_.size(); ++p) {
    placement_.device->CopyFrom(exported_[p].bytes.data(), weights[p], exported_[p].bytes.size());
  }
}

void ReplayOptimizer::PerturbFactors(std::mt19937_64* random) {
  int64_t count = 0;
  Check(shampoo_state_count(optimizer_, &count), "shampoo_state_count");
  for (int64_t i = 0; i < count; ++i) {
    shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
    Check(shampoo_state_describe(optimizer_, i, &entry), "shampoo_state_describe");
    if (std::string(entry.key).find("/factor.") == std::string::npos) continue;
    Tensor factor{DtypeName(entry.dtype), {entry.shape, entry.shape + entry.ndim}, {}};
    const int64_t elements = ElementCount(factor.shape);
    factor.bytes.resize(static_cast<size_t>(elements) * ElementSize(factor.dtype));
    Check(
        shampoo_state_read(optimizer_, i, 0, elements, factor.bytes.data(), factor.bytes.size(), SHAMPOO_CPU, Stream()),
        "shampoo_state_read");
    PerturbMatrix(&factor, random);
    Check(shampoo_state_write(optimizer_, i, 0, elements, factor.bytes.data(), factor.bytes.size(), SHAMPOO_CPU,
                              Stream()),
          "shampoo_state_write");
  }
}

void ReplayOptimizer::Save(const std::string& directory) {
  Check(shampoo_save(&optimizer_, 1, world_, directory.c_str(), Stream()), "shampoo_save");
}

void ReplayOptimizer::Load(const std::string& directory) {
  Check(shampoo_load(&optimizer_, 1, world_, directory.c_str(), Stream()), "shampoo_load");
}

}  // namespace shampoo::golden

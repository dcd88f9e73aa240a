// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/replay_optimizer.h"

#include <algorithm>
#include <stdexcept>

#include "tests/golden/case_config.h"

namespace shampoo::golden {
namespace {

using nlohmann::json;

// The group of each parameter, by its position in "groups"; every parameter belongs to exactly one.
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

}  // namespace

ReplayOptimizer::ReplayOptimizer(const json& settings, const TensorFile& data, int32_t threads) {
  const std::string dtype = DtypeOfParameters(settings.at("param_dtype").get<std::string>());
  const auto shapes = settings.at("shapes").get<std::vector<std::vector<int64_t>>>();
  for (size_t p = 0; p < shapes.size(); ++p) {
    const Tensor& init = data.At("init/" + std::to_string(p));
    if (init.dtype != dtype || init.shape != shapes[p]) {
      throw std::runtime_error("init/" + std::to_string(p) + " differs from the case's shapes or param_dtype");
    }
    Tensor param{init.dtype, init.shape, {}};
    // Even a parameter with a dim of 0 gets an address.
    param.bytes.reserve(std::max(init.bytes.size(), sizeof(double)));
    param.bytes.assign(init.bytes.begin(), init.bytes.end());
    params_.push_back(std::move(param));
  }
  try {
    Build(settings, threads);
  } catch (...) {  // no destructor runs for an object that was never complete
    shampoo_optimizer_destroy(optimizer_);
    shampoo_plan_destroy(plan_);
    throw;
  }
}

ReplayOptimizer::~ReplayOptimizer() {
  shampoo_optimizer_destroy(optimizer_);
  shampoo_plan_destroy(plan_);
}

void ReplayOptimizer::Build(const json& settings, int32_t threads) {
  const json& groups = settings.at("groups");
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  plan_desc.threads = threads;
  for (size_t g = 0; g < groups.size(); ++g) {
    const Config config = GroupConfig(groups[g]);
    int32_t id = 0;  // the group of the plan's own config
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
  Check(shampoo_optimizer_create(&optimizer_, plan_, &desc), "shampoo_optimizer_create");
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
    int32_t index = -1;
    Check(shampoo_plan_add_param(plan_, &desc, &index), "shampoo_plan_add_param of " + name);
    if (index != static_cast<int32_t>(p)) {
      throw std::runtime_error(name + " was given the index " + std::to_string(index) + " by shampoo_plan_add_param");
    }
  }
}

void ReplayOptimizer::SetLearningRates(const std::vector<double>& rates) {
  if (rates.size() != group_ids_.size()) throw std::runtime_error("lr_schedule has not one learning rate per group");
  for (size_t g = 0; g < rates.size(); ++g) {
    Check(shampoo_optimizer_set(optimizer_, group_ids_[g], "lr", rates[g]), "shampoo_optimizer_set of lr");
  }
}

void ReplayOptimizer::Step(const std::vector<const void*>& gradients) {
  std::vector<shampoo_buffers> buffers(params_.size(), shampoo_buffers SHAMPOO_BUFFERS_INIT);
  for (size_t p = 0; p < params_.size(); ++p) {
    buffers[p].param = buffers[p].out = params_[p].bytes.data();
    buffers[p].grad = gradients.at(p);
  }
  Check(shampoo_optimizer_bind(optimizer_, 0, static_cast<int32_t>(buffers.size()), buffers.data()),
        "shampoo_optimizer_bind");
  Check(shampoo_optimizer_step(optimizer_, nullptr), "shampoo_optimizer_step");
}

}  // namespace shampoo::golden

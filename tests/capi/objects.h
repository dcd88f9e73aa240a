// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <shampoo/shampoo.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "tests/keys.h"
#include "tests/preset.h"

// Helpers that create configs, plans and optimizers through the C API, and fail the test if a call fails.
namespace shampoo_test {

inline bool Has(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words) {
    if (text.find(word) == std::string::npos) return false;
  }
  return true;
}

// Checks that the message of shampoo_last_error() contains all `words`.
inline void CheckLastError(std::initializer_list<const char*> words) {
  CHECK_MESSAGE(Has(shampoo_last_error(), words), shampoo_last_error());
}

struct Destroy {
  void operator()(shampoo_config* config) const { shampoo_config_destroy(config); }
  void operator()(shampoo_plan* plan) const { shampoo_plan_destroy(plan); }
  void operator()(shampoo_optimizer* optimizer) const { shampoo_optimizer_destroy(optimizer); }
};
using ConfigPtr = std::unique_ptr<shampoo_config, Destroy>;
using PlanPtr = std::unique_ptr<shampoo_plan, Destroy>;
using OptimizerPtr = std::unique_ptr<shampoo_optimizer, Destroy>;

inline void RequireOk(shampoo_status status) {
  REQUIRE_MESSAGE(status == SHAMPOO_OK, std::string(shampoo_last_error()));
}

inline ConfigPtr MakeConfig(const Keys& keys = {}) {
  shampoo_config* config = nullptr;
  RequireOk(shampoo_config_create(&config));
  ConfigPtr made(config);
  RequireOk(SetPreset(config));
  for (const auto& [key, value] : keys) RequireOk(shampoo_config_set_str(config, key.c_str(), value.c_str()));
  return made;
}

// Creates an unfinished plan.
inline PlanPtr MakePlan(const Keys& keys = {}, const shampoo_plan_desc& desc = SHAMPOO_PLAN_DESC_INIT) {
  shampoo_plan* plan = nullptr;
  RequireOk(shampoo_plan_create(&plan, MakeConfig(keys).get(), &desc));
  return PlanPtr(plan);
}

// Checks that a plan cannot be created with these keys, and returns the error message.
inline std::string PlanError(const Keys& keys) {
  const shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT;
  shampoo_plan* plan = nullptr;
  CHECK(shampoo_plan_create(&plan, MakeConfig(keys).get(), &desc) == SHAMPOO_E_INVALID);
  CHECK(plan == nullptr);
  return shampoo_last_error();
}

inline OptimizerPtr MakeOptimizer(const PlanPtr& plan) {
  const shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  shampoo_optimizer* optimizer = nullptr;
  RequireOk(shampoo_optimizer_create(&optimizer, plan.get(), &desc));
  return OptimizerPtr(optimizer);
}

// Creates an optimizer, destroys it, and returns the status of the creation.
inline shampoo_status TryCreate(const PlanPtr& plan, const shampoo_optimizer_desc& desc = SHAMPOO_OPTIMIZER_DESC_INIT) {
  shampoo_optimizer* optimizer = nullptr;
  const shampoo_status status = shampoo_optimizer_create(&optimizer, plan.get(), &desc);
  CHECK((status == SHAMPOO_OK) == (optimizer != nullptr));
  shampoo_optimizer_destroy(optimizer);
  return status;
}

inline shampoo_param_desc Param(const char* name, const std::vector<int64_t>& shape, int32_t dtype = SHAMPOO_F32) {
  shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
  desc.name = name;
  for (const int64_t dim : shape) desc.shape[desc.ndim++] = dim;
  desc.param_dtype = desc.grad_dtype = dtype;
  return desc;
}

// FlatShard and RectangleShard take the description of a whole parameter, and return the description of a shard of it.
inline shampoo_param_desc FlatShard(shampoo_param_desc desc, int64_t offset, int64_t count) {
  desc.shard_form = 1;
  desc.flat_offset = offset;
  desc.flat_count = count;
  return desc;
}
inline shampoo_param_desc RectangleShard(shampoo_param_desc desc, const std::vector<int64_t>& offset,
                                         const std::vector<int64_t>& shape) {
  desc.shard_form = 2;
  std::copy(offset.begin(), offset.end(), desc.local_offset);
  std::copy(shape.begin(), shape.end(), desc.local_shape);
  return desc;
}

inline void AddParam(const PlanPtr& plan, const shampoo_param_desc& desc) {
  RequireOk(shampoo_plan_add_param(plan.get(), &desc, nullptr));
}

inline std::vector<shampoo_block_info> BlocksOf(const shampoo_plan* plan) {
  int64_t count = 0;
  RequireOk(shampoo_plan_block_count(plan, &count));
  std::vector<shampoo_block_info> blocks(static_cast<size_t>(count), SHAMPOO_BLOCK_INFO_INIT);
  for (int64_t i = 0; i < count; ++i) RequireOk(shampoo_plan_block(plan, i, &blocks[static_cast<size_t>(i)]));
  return blocks;
}

inline int64_t PlanBytes(const shampoo_plan* plan, int32_t rank, const char* what) {
  int64_t bytes = 0;
  RequireOk(shampoo_plan_bytes(plan, rank, what, &bytes));
  return bytes;
}

}  // namespace shampoo_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <shampoo/shampoo.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace shampoo_test {

using Keys = std::vector<std::pair<std::string, std::string>>;

inline void RequireOk(shampoo_status status) { REQUIRE_MESSAGE(status == SHAMPOO_OK, shampoo_last_error()); }

inline shampoo_param_desc Param(const char* name, std::vector<int64_t> shape, int32_t dtype = SHAMPOO_F64) {
  shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
  desc.name = name;
  desc.ndim = static_cast<int32_t>(shape.size());
  for (size_t k = 0; k < shape.size(); ++k) desc.shape[k] = shape[k];
  desc.param_dtype = dtype;
  desc.grad_dtype = dtype;
  return desc;
}

inline shampoo_config* MakeConfig(const Keys& keys) {
  shampoo_config* config = nullptr;
  RequireOk(shampoo_config_create(&config));
  RequireOk(shampoo_config_set_str(config, "preset", "shampoo_2024"));
  RequireOk(shampoo_config_set_str(config, "initial_inverse", "identity"));
  for (const auto& [key, value] : keys) RequireOk(shampoo_config_set_str(config, key.c_str(), value.c_str()));
  return config;
}

// An optimizer of float32 or float64 parameters in one group, with values that the test owns.
template <typename Real>
class Model {
 public:
  Model(const Keys& keys, std::vector<shampoo_param_desc> params, int32_t threads = 1) : descs_(std::move(params)) {
    shampoo_config* config = MakeConfig(keys);
    shampoo_plan_desc place = SHAMPOO_PLAN_DESC_INIT;
    place.threads = threads;
    RequireOk(shampoo_plan_create(&plan_, config, &place));
    shampoo_config_destroy(config);
    for (shampoo_param_desc& desc : descs_) {
      desc.param_dtype = desc.grad_dtype = sizeof(Real) == 8 ? SHAMPOO_F64 : SHAMPOO_F32;
      RequireOk(shampoo_plan_add_param(plan_, &desc, nullptr));
      size_t elements = 1;
      for (int k = 0; k < desc.ndim; ++k) {
        elements *= static_cast<size_t>(desc.shard_form == 2 ? desc.local_shape[k] : desc.shape[k]);
      }
      if (desc.shard_form == 1) elements = static_cast<size_t>(desc.flat_count);
      w.emplace_back(elements);
      g.emplace_back(elements);
      has_grad.push_back(true);
    }
    RequireOk(shampoo_plan_finish(plan_));
    shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
    RequireOk(shampoo_optimizer_create(&optimizer, plan_, &desc));
  }
  ~Model() {
    shampoo_optimizer_destroy(optimizer);
    shampoo_plan_destroy(plan_);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  void Step() {
    for (size_t p = 0; p < w.size(); ++p) {
      shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
      buffers.param = buffers.out = w[p].data();
      buffers.grad = has_grad[p] ? g[p].data() : nullptr;
      RequireOk(shampoo_optimizer_bind(optimizer, static_cast<int32_t>(p), 1, &buffers));
    }
    RequireOk(shampoo_optimizer_step(optimizer, nullptr));
  }

  // Returns the index of the entry with this key.
  int64_t Entry(const std::string& key) const {
    int64_t count = 0;
    RequireOk(shampoo_state_count(optimizer, &count));
    for (int64_t i = 0; i < count; ++i) {
      shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
      RequireOk(shampoo_state_describe(optimizer, i, &entry));
      if (key == entry.key) return i;
    }
    FAIL("no state entry " << key);
    return -1;
  }
  template <typename Element>
  std::vector<Element> Read(const std::string& key, int64_t count) const {
    std::vector<Element> values(static_cast<size_t>(count));
    RequireOk(shampoo_state_read(optimizer, Entry(key), 0, count, values.data(), values.size() * sizeof(Element),
                                 SHAMPOO_CPU, nullptr));
    return values;
  }

  std::vector<std::vector<Real>> w;
  std::vector<std::vector<Real>> g;
  std::vector<bool> has_grad;
  shampoo_optimizer* optimizer = nullptr;

 private:
  std::vector<shampoo_param_desc> descs_;
  shampoo_plan* plan_ = nullptr;
};

template <typename Real>
void Fill(std::mt19937_64& random, std::vector<Real>* values) {
  for (Real& value : *values) {
    value = static_cast<Real>(static_cast<double>(static_cast<int64_t>(random() % 20001) - 10000) / 4096.0);
  }
}

template <typename Real>
bool SameBits(const std::vector<Real>& a, const std::vector<Real>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Real)) == 0;
}

}  // namespace shampoo_test

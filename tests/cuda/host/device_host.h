// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <shampoo/shampoo.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/host/fake_plugin.h"

namespace shampoo_test {

inline void Must(shampoo_status status) { REQUIRE_MESSAGE(status == SHAMPOO_OK, shampoo_last_error()); }

using Keys = std::vector<std::pair<std::string, std::string>>;

FakeDevice& TheFake();

// Returns the first word that a text does not contain, or "".
inline std::string MissingWord(const std::string& text, std::initializer_list<std::string> words) {
  for (const std::string& word : words) {
    if (text.find(word) == std::string::npos) return word + " is not in: " + text;
  }
  return {};
}

// An optimizer of the fake plugin with one parameter "w" of shape (4, 3), which is one block.
class DeviceHost {
 public:
  explicit DeviceHost(const Keys& keys, void* stream = nullptr) {
    const auto replay = TheFake().replay;
    TheFake() = FakeDevice();
    TheFake().replay = replay;
    shampoo_config* config = nullptr;
    Must(shampoo_config_create(&config));
    Must(shampoo_config_set_str(config, "preset", "shampoo_2024"));
    Must(shampoo_config_set_str(config, "use_merge_dims", "false"));
    for (const auto& [key, value] : keys) Must(shampoo_config_set_str(config, key.c_str(), value.c_str()));
    shampoo_plan_desc place = SHAMPOO_PLAN_DESC_INIT;
    place.device_type = SHAMPOO_CUDA;
    Must(shampoo_plan_create(&plan, config, &place));
    shampoo_config_destroy(config);
    shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
    param.name = "w";
    param.ndim = 2;
    param.shape[0] = 4;
    param.shape[1] = 3;
    Must(shampoo_plan_add_param(plan, &param, nullptr));
    Must(shampoo_plan_finish(plan));
    shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
    desc.device_type = SHAMPOO_CUDA;
    desc.stream = stream;
    Must(shampoo_optimizer_create(&optimizer, plan, &desc));
    shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
    buffers.param = buffers.out = w;
    buffers.grad = g;
    Must(shampoo_optimizer_bind(optimizer, 0, 1, &buffers));
  }
  ~DeviceHost() {
    shampoo_optimizer_destroy(optimizer);
    shampoo_plan_destroy(plan);
  }
  DeviceHost(const DeviceHost&) = delete;
  DeviceHost& operator=(const DeviceHost&) = delete;

  shampoo_status Step(void* stream = nullptr) { return shampoo_optimizer_step(optimizer, stream); }
  int64_t IndexOf(const std::string& key) const {
    int64_t count = 0;
    Must(shampoo_state_count(optimizer, &count));
    for (int64_t i = 0; i < count; ++i) {
      shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
      Must(shampoo_state_describe(optimizer, i, &entry));
      if (key == entry.key) return i;
    }
    FAIL("there is no entry " << key);
    return -1;
  }
  int64_t Steps() {
    int64_t steps = -1;
    Must(shampoo_state_read(optimizer, IndexOf("group.0/step"), 0, 1, &steps, sizeof steps, SHAMPOO_CPU, nullptr));
    return steps;
  }
  std::vector<float> Read(const std::string& key, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    Must(shampoo_state_read(optimizer, IndexOf(key), 0, count, values.data(), values.size() * sizeof values[0],
                            SHAMPOO_CPU, nullptr));
    return values;
  }
  double Stat(const char* key) const {
    double value = -1;
    Must(shampoo_optimizer_stat(optimizer, key, &value));
    return value;
  }

  float w[12] = {};
  float g[12] = {};
  shampoo_plan* plan = nullptr;
  shampoo_optimizer* optimizer = nullptr;
};

}  // namespace shampoo_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace shampoo::golden {

// Throws std::runtime_error unless the status is SHAMPOO_OK. The error contains the description of the call (`tried`),
// the name of the status, and the library's message.
void Check(shampoo_status status, const std::string& tried);

// Owns a shampoo_config.
class Config {
 public:
  Config();
  ~Config() { shampoo_config_destroy(config_); }
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;
  Config(Config&& other) noexcept : config_(other.config_) { other.config_ = nullptr; }
  Config& operator=(Config&&) = delete;

  // Sets a key of the library to a JSON value. A number is passed as a number, because a conversion to a string could
  // round it. A list is passed as a string such as "0,2,4"; only inverse_root_override accepts a list.
  void Set(const std::string& key, const nlohmann::json& value);

  const shampoo_config* Get() const { return config_; }

 private:
  shampoo_config* config_ = nullptr;
};

// Returns the config for one entry of the list "groups" of a recorded case. Throws std::runtime_error if a field of the
// entry is unknown, so that no recorded setting is ignored.
Config GroupConfig(const nlohmann::json& group);

}  // namespace shampoo::golden

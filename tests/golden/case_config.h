// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace shampoo::golden {

// Throws std::runtime_error unless the status is SHAMPOO_OK. The error contains `tried` (the name of the call), the
// name of the status and the library's message.
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

  // Sets a key of the library to a JSON value. Numbers are passed as numbers, so they keep their bits. A list becomes a
  // text such as "0,2,4".
  void Set(const std::string& key, const nlohmann::json& value);

  const shampoo_config* Get() const { return config_; }

 private:
  shampoo_config* config_ = nullptr;
};

// Returns the config of an entry of "groups" in a case. An unknown field is an error, so no recorded setting is
// ignored.
Config GroupConfig(const nlohmann::json& group);

}  // namespace shampoo::golden

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace shampoo::golden {

// Throws std::runtime_error with what was tried, the name of the status and the library's own message.
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

  // A JSON value under a key of the library. Numbers go over as numbers, so that they arrive bit for bit; a list
  // becomes "0,2,4".
  void Set(const std::string& key, const nlohmann::json& value);

  const shampoo_config* Get() const { return config_; }

 private:
  shampoo_config* config_ = nullptr;
};

// The config of one entry of a case's "groups". A field that is not known here is an error: nothing recorded is
// ignored.
Config GroupConfig(const nlohmann::json& group);

}  // namespace shampoo::golden

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/case_config.h"

#include <map>
#include <stdexcept>
#include <vector>

namespace shampoo::golden {
namespace {

using nlohmann::json;

// Maps a field of a recorded group ("object.member" if nested) to the keys of the library that it sets.
const std::map<std::string, std::vector<std::string>>& KeysOfFields() {
  static const std::map<std::string, std::vector<std::string>> table = {
      {"lr", {"lr"}},
      {"beta1", {"beta1"}},
      {"beta2", {"beta2"}},
      {"epsilon", {"epsilon"}},
      {"momentum", {"momentum"}},
      {"use_nesterov", {"use_nesterov"}},
      {"weight_decay", {"weight_decay"}},
      {"weight_decay_type", {"weight_decay_type"}},
      {"max_preconditioner_dim", {"max_preconditioner_dim"}},
      {"use_merge_dims", {"use_merge_dims"}},
      {"precondition_frequency", {"precondition_frequency"}},
      {"start_preconditioning_step", {"start_preconditioning_step"}},
      {"inv_root_override", {"inverse_root_override"}},
      {"exponent_multiplier", {"exponent_multiplier"}},
      {"use_bias_correction", {"use_bias_correction"}},
      {"grafting.type", {"grafting"}},
      {"grafting.beta2", {"grafting_beta2"}},
      {"grafting.epsilon", {"grafting_epsilon"}},
      {"precision.computation", {"computation_dtype", "root_dtype"}},
      {"precision.factor_matrix", {"factor_dtype"}},
      {"precision.inv_factor_matrix", {"inverse_dtype"}},
      {"precision.filtered_grad", {"filtered_grad_dtype"}},
      {"precision.momentum", {"momentum_dtype"}},
      {"precision.grafting_state", {"grafting_dtype"}},
  };
  return table;
}

// Returns a string such as "0,2,4" for inverse_root_override. A recorded list with one entry applies to order 0 only. A
// string with one number would apply to all orders. This function therefore adds the entry 0 for order 1, which has
// the same effect as no entry for order 1.
std::string ListText(const json& list) {
  std::string text;
  for (const json& entry : list) text += (text.empty() ? "" : ",") + std::to_string(entry.get<int64_t>());
  if (list.size() == 1) text += ",0";
  return text;
}

void SetField(Config& config, const std::string& field, const json& value) {
  const auto found = KeysOfFields().find(field);
  if (found == KeysOfFields().end())
    throw std::runtime_error("group field " + field + " is not supported by this tool");
  for (const std::string& key : found->second) config.Set(key, value);
}

}  // namespace

void Check(shampoo_status status, const std::string& tried) {
  if (status == SHAMPOO_OK) return;
  const char* message = shampoo_last_error();
  throw std::runtime_error(tried + ": " + shampoo_status_name(status) + ": " + (message != nullptr ? message : ""));
}

Config::Config() { Check(shampoo_config_create(&config_), "shampoo_config_create"); }

void Config::Set(const std::string& key, const json& value) {
  const std::string tried = "set " + key + " = " + value.dump();
  if (key == "inverse_root_override") {  // a list, or a number that applies to all orders
    Check(shampoo_config_set_str(config_, key.c_str(), (value.is_array() ? ListText(value) : value.dump()).c_str()),
          tried);
  } else if (value.is_string()) {
    Check(shampoo_config_set_str(config_, key.c_str(), value.get<std::string>().c_str()), tried);
  } else if (value.is_boolean()) {
    Check(shampoo_config_set_i64(config_, key.c_str(), value.get<bool>() ? 1 : 0), tried);
  } else if (value.is_number_integer()) {
    Check(shampoo_config_set_i64(config_, key.c_str(), value.get<int64_t>()), tried);
  } else if (value.is_number_float()) {
    Check(shampoo_config_set_f64(config_, key.c_str(), value.get<double>()), tried);
  } else {
    throw std::runtime_error(tried + ": this tool expects a string, a number, true or false");
  }
}

Config GroupConfig(const json& group) {
  Config config;
  if (group.contains("keys")) {  // keys of the library
    for (const auto& [key, value] : group.at("keys").items()) {
      if (key == "ignored_dims" && value.empty()) continue;  // an empty list is the default
      config.Set(key, key == "kl_cap" && value == "inf" ? json(0) : value);
    }
    return config;
  }
  // Settings that a case does not contain are those of the release from which the case was recorded.
  config.Set("preset", "shampoo_2024");
  for (const auto& [field, value] : group.items()) {
    if (field == "params" || field == "preconditioner_dtype") continue;
    if (value.is_object()) {
      for (const auto& [member, inner] : value.items())
        SetField(config, std::string(field).append(".").append(member), inner);
    } else {
      SetField(config, field, value);
    }
  }
  // preconditioner_dtype is the older name of precision.factor_matrix. If it is set, it has priority.
  if (const json& dtype = group.at("preconditioner_dtype"); !dtype.is_null()) config.Set("factor_dtype", dtype);
  return config;
}

}  // namespace shampoo::golden

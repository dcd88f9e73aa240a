// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/src/guard.h"
#include "capi/src/handles.h"
#include "capi/src/struct_size.h"
#include "core/base/amount.h"
#include "core/config/keys.h"
#include "core/config/option_text.h"

using shampoo::Guard;
using shampoo::RequireArgument;
using shampoo::Status;

shampoo_status shampoo_config_create(shampoo_config** out) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(out, "out"));
    *out = new shampoo_config;
    return {};
  });
}

shampoo_status shampoo_config_clone(shampoo_config** out, const shampoo_config* config) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(out, "out"));
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(config, "config"));
    *out = new shampoo_config(*config);
    (*out)->config.MarkInherited();
    return {};
  });
}

void shampoo_config_destroy(shampoo_config* config) { delete config; }

shampoo_status shampoo_config_set_f64(shampoo_config* config, const char* key, double value) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(config, "config"));
    return config->config.SetNumber(key, value);
  });
}

shampoo_status shampoo_config_set_i64(shampoo_config* config, const char* key, int64_t value) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(config, "config"));
    return config->config.SetInteger(key, value);
  });
}

shampoo_status shampoo_config_set_str(shampoo_config* config, const char* key, const char* value) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(config, "config"));
    return config->config.SetText(key, value);
  });
}

shampoo_status shampoo_config_parse(shampoo_config* config, const char* options) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(config, "config"));
    return shampoo::SetFromOptionText(options, &config->config);
  });
}

const char* shampoo_config_get(const shampoo_config* config, const char* key) {
  if (config == nullptr || key == nullptr) return nullptr;
  const std::string* text = config->config.Text(key);
  return text == nullptr ? nullptr : text->c_str();
}

int32_t shampoo_config_key_count(void) { return static_cast<int32_t>(shampoo::Keys().size()); }

shampoo_status shampoo_config_describe_key(int32_t index, shampoo_key_info* info) {
  return Guard([&]() -> Status {
    if (index < 0 || index >= shampoo_config_key_count()) {
      return shampoo::Invalid("index is ", index, ": expected ", shampoo::IndicesText(shampoo_config_key_count()));
    }
    const shampoo::Key& key = shampoo::Keys()[static_cast<size_t>(index)];
    const shampoo_key_info own = {sizeof(shampoo_key_info),        key.name,
                                  shampoo::TypeName(key.type),     key.default_text,
                                  shampoo::RangeText(key).c_str(), shampoo::DocText(key).c_str(),
                                  static_cast<int32_t>(key.scope), key.changeable ? 1 : 0,
                                  key.for_replay ? 1 : 0,          0};
    return shampoo::WriteStruct(own, sizeof own, "info", info);
  });
}

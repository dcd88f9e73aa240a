// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/config/keys.h"
#include "core/config/settings.h"

namespace shampoo {

// Values by key: those that were set, and the defaults of the preset for all others. Every value is checked against its
// row when it is set; what spans several keys is checked by Resolve.
class Config {
 public:
  Config();

  Status SetNumber(const char* name, double number);
  Status SetInteger(const char* name, int64_t integer);
  Status SetText(const char* name, const char* text);
  const std::string* Text(std::string_view name) const;  // nullptr: no such key

  bool IsSet(const Key& key) const { return set_[static_cast<size_t>(IndexOf(key))]; }
  const Value& ValueOf(const Key& key) const { return values_[static_cast<size_t>(IndexOf(key))]; }

  Status Resolve(Settings* settings) const;

 private:
  template <typename Make>
  Status Set(const char* name, Make&& make);
  void ApplyPreset(const Preset& preset);
  bool IsSet(const char* name) const { return IsSet(*FindKey(name)) && !ValueOf(*FindKey(name)).is_auto; }
  Status ResolveEpsilon(Settings* settings) const;
  Status ResolveSchedule(Settings* settings) const;

  std::vector<Value> values_;
  std::vector<bool> set_;  // by the user, even if to the default
};

}  // namespace shampoo

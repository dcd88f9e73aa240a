// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/config/defaults.h"
#include "core/config/keys.h"
#include "core/config/settings.h"

namespace shampoo {

// The values of all keys: the values that the user has set, and the defaults of the preset and the method for all other
// keys. A value is checked against the table of keys when it is set. Resolve() makes the checks that involve several
// keys.
class Config {
 public:
  Config();

  Status SetNumber(const char* name, double number);
  Status SetInteger(const char* name, int64_t integer);
  Status SetText(const char* name, const char* text);
  const std::string* Text(std::string_view name) const;  // returns nullptr if there is no such key

  // Call this function after this config was copied from another config. Resolve() then ignores copied values of keys
  // that the method does not read, instead of failing.
  void MarkInherited();

  // Returns whether the user has set the key, in this config or in the config that this one was copied from.
  bool IsSet(const Key& key) const { return SourceOf(key) != Source::kDefault; }
  // Returns whether the user has set the key in this config. A value copied from another config does not count.
  bool IsOwn(const Key& key) const { return SourceOf(key) == Source::kOwn; }
  const Value& ValueOf(const Key& key) const { return values_[static_cast<size_t>(IndexOf(key))]; }

  // Checks the values together, and converts them to Settings with every default resolved.
  Status Resolve(Settings* settings) const;

 private:
  enum class Source : unsigned char {
    kDefault,
    kInherited,  // set by the user in the config that this one was copied from
    kOwn,        // set by the user in this config, possibly to the default
  };

  template <typename Make>
  Status Set(const char* name, Make&& make);
  Source SourceOf(const Key& key) const { return sources_[static_cast<size_t>(IndexOf(key))]; }
  void TakeText(const Key& key, const char* text);
  void ApplyDefaults();

  std::vector<Value> values_;
  std::vector<Source> sources_;
};

}  // namespace shampoo

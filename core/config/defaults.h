// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/config/keys.h"
#include "core/config/settings.h"

namespace shampoo {

// A default that replaces the default in the table of keys.
struct Default {
  const char* key;
  const char* text;
};

// A named set of defaults for one method.
struct Preset {
  const char* name;
  Method method;
  std::span<const Default> defaults;
};

std::span<const Preset> Presets();  // in the order of the choices of the key `preset`

// Returns those defaults of a method that differ from the table of keys.
std::span<const Default> DefaultsOf(Method method);

// Returns the default of a key for a preset and a method: the default of the preset if the preset is for this method
// and contains the key, otherwise the default of the method, otherwise the default in the table of keys.
const char* DefaultText(const Key& key, const Preset& preset, Method method);

}  // namespace shampoo

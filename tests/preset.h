// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <cstdlib>
#include <string_view>

namespace shampoo_test {

// Gives a config what most tests begin with: the preset shampoo_2024, with roots that begin as the identity. With
// SHAMPOO_TEST_PRESET=shampoo in the environment it keeps the library's defaults, with which vectors have no factor
// matrices, epsilons are relative and early refreshes are many.
inline shampoo_status SetPreset(shampoo_config* config) {
  const char* const asked = std::getenv("SHAMPOO_TEST_PRESET");
  if (asked != nullptr && std::string_view(asked) == "shampoo") {
    return shampoo_config_set_str(config, "allow_stalled_moments", "true");  // states in 16 bits, whatever their decay
  }
  const shampoo_status status = shampoo_config_set_str(config, "preset", "shampoo_2024");
  return status != SHAMPOO_OK ? status : shampoo_config_set_str(config, "initial_inverse", "identity");
}

}  // namespace shampoo_test

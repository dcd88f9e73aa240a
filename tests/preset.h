// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <cstdlib>
#include <string_view>

namespace shampoo_test {

// Sets the options that most tests start from: the preset shampoo_2024, with the identity as initial inverse root. If
// the environment variable SHAMPOO_TEST_PRESET is "shampoo", sets only allow_stalled_moments, and keeps the library's
// defaults of all other keys. With these defaults, vectors have no factor matrices, the epsilon of inverse roots is
// relative, and the first refreshes have short intervals.
inline shampoo_status SetPreset(shampoo_config* config) {
  const char* const asked = std::getenv("SHAMPOO_TEST_PRESET");
  if (asked != nullptr && std::string_view(asked) == "shampoo") {
    return shampoo_config_set_str(config, "allow_stalled_moments", "true");  // allows states in 16 bits with any decay
  }
  const shampoo_status status = shampoo_config_set_str(config, "preset", "shampoo_2024");
  return status != SHAMPOO_OK ? status : shampoo_config_set_str(config, "initial_inverse", "identity");
}

}  // namespace shampoo_test

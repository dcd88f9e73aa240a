// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <string>

#include "tests/golden/device.h"

namespace shampoo::golden {

// For programs that replay only on the host.
Device& DeviceNamed(const char* name) {
  throw std::runtime_error("--device " + std::string(name) + ": this program supports no devices");
}

}  // namespace shampoo::golden

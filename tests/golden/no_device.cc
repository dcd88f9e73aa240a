// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <string>

#include "tests/golden/device.h"

namespace shampoo::golden {

// Rejects every device, for programs that replay recorded cases only on the CPU.
Device& DeviceNamed(const char* name) {
  throw std::runtime_error("--device " + std::string(name) + ": this program supports no devices");
}

}  // namespace shampoo::golden

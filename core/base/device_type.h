// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

// The values are those of SHAMPOO_CPU and SHAMPOO_CUDA in the public header.
enum class DeviceType : int32_t { kCpu = 1, kCuda = 2 };

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

// SHAMPOO_CPU and SHAMPOO_CUDA in the public header have the same values.
enum class DeviceType : int32_t { kCpu = 1, kCuda = 2 };

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::cuda {

// Sizes of the plugin's tables (plugin/tables.h), for the plan, which is made without it; the plugin asserts them.
inline constexpr int64_t kDeviceBlockBytes = 840;
inline constexpr int64_t kDeviceParamBytes = 16;
inline constexpr int64_t kGroupScalarsBytes = 264;
inline constexpr int64_t kBlockWorkBytes = 72;
inline constexpr int64_t kStepStateBytes = 152;
inline constexpr int64_t kDeviceTileBytes = 8;
inline constexpr int64_t kDeviceMatrixTileBytes = 12;

}  // namespace shampoo::cuda

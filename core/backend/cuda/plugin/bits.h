// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "core/backend/cuda/plugin/cta.h"

namespace shampoo::cuda {

// Returns the bits of `from` as another type of the same size, like std::bit_cast.
template <typename To, typename From>
SHAMPOO_DEVICE inline To BitsAs(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(static_cast<void*>(&to), &from, sizeof to);
  return to;
}

// Returns an integer that increases with the magnitude of `value`. The integer of infinity is above those of all finite
// numbers, and the integer of NaN is above that of infinity.
SHAMPOO_DEVICE inline uint64_t MagnitudeBits(double value) { return BitsAs<uint64_t>(value) & ~(uint64_t{1} << 63); }
SHAMPOO_DEVICE inline bool IsFinite(double value) { return MagnitudeBits(value) < uint64_t{0x7ff} << 52; }
SHAMPOO_DEVICE inline bool IsNan(double value) { return MagnitudeBits(value) > uint64_t{0x7ff} << 52; }

}  // namespace shampoo::cuda

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>

#include "core/backend/cuda/plugin/bits.h"
#include "core/backend/cuda/plugin/kernel_tables.h"

// Reads and writes single elements of the caller's buffers and of states, in any dtype.
namespace shampoo::cuda {

template <typename Real>
SHAMPOO_DEVICE inline Real ReadAs(const void* base, Dtype dtype, int64_t at) {
  switch (dtype) {
    case Dtype::kF32:
      return static_cast<Real>(static_cast<const float*>(base)[at]);
    case Dtype::kF64:
      return static_cast<Real>(static_cast<const double*>(base)[at]);
    case Dtype::kF16:
      return static_cast<Real>(__half2float(static_cast<const __half*>(base)[at]));
    default:
      return static_cast<Real>(__bfloat162float(static_cast<const __nv_bfloat16*>(base)[at]));
  }
}

// These functions convert a value with a single rounding, to nearest.
SHAMPOO_DEVICE inline __half ToHalf(float value) { return __float2half_rn(value); }
SHAMPOO_DEVICE inline __half ToHalf(double value) { return __double2half(value); }
SHAMPOO_DEVICE inline __nv_bfloat16 ToBf16(float value) { return __float2bfloat16_rn(value); }
SHAMPOO_DEVICE inline __nv_bfloat16 ToBf16(double value) { return __double2bfloat16(value); }

template <typename Real>
SHAMPOO_DEVICE inline void WriteAs(void* base, Dtype dtype, int64_t at, Real value) {
  switch (dtype) {
    case Dtype::kF32:
      static_cast<float*>(base)[at] = static_cast<float>(value);
      return;
    case Dtype::kF64:
      static_cast<double*>(base)[at] = static_cast<double>(value);
      return;
    case Dtype::kF16:
      static_cast<__half*>(base)[at] = ToHalf(value);
      return;
    default:
      static_cast<__nv_bfloat16*>(base)[at] = ToBf16(value);
  }
}

// Returns the value after rounding it to a dtype.
template <typename Real>
SHAMPOO_DEVICE inline Real RoundedTo(Dtype dtype, Real value) {
  double memory;
  WriteAs(&memory, dtype, 0, value);
  return ReadAs<Real>(&memory, dtype, 0);
}

// Returns the bit pattern of an element's magnitude, in the dtype of the element. Patterns have the same order as the
// magnitudes. The pattern of infinity is above those of all numbers, and the pattern of NaN is above that of infinity.
SHAMPOO_DEVICE inline uint64_t PatternOf(const void* base, Dtype dtype, int64_t at) {
  switch (dtype) {
    case Dtype::kF32:
      return static_cast<const uint32_t*>(base)[at] & 0x7fffffffu;
    case Dtype::kF64:
      return static_cast<const uint64_t*>(base)[at] & ~(uint64_t{1} << 63);
    default:
      return static_cast<const uint16_t*>(base)[at] & 0x7fffu;
  }
}

// Returns the magnitude whose bit pattern (PatternOf) is `pattern`.
SHAMPOO_DEVICE inline double MagnitudeOf(uint64_t pattern, Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return static_cast<double>(BitsAs<float>(static_cast<uint32_t>(pattern)));
    case Dtype::kF64:
      return BitsAs<double>(pattern);
    case Dtype::kF16: {
      __half_raw raw;
      raw.x = static_cast<uint16_t>(pattern);
      return static_cast<double>(__half2float(__half(raw)));
    }
    default: {
      __nv_bfloat16_raw raw;
      raw.x = static_cast<uint16_t>(pattern);
      return static_cast<double>(__bfloat162float(__nv_bfloat16(raw)));
    }
  }
}

// Returns the position of an element in the caller's buffers, in elements. i: row-major index of the element in its
// block.
SHAMPOO_DEVICE inline int64_t PlaceOf(const DeviceBlock& block, int64_t i) {
  if (block.dense) return block.offset + i;
  int64_t place = block.offset;
  for (int k = block.order - 1; k > 0; --k) {
    const auto d = static_cast<uint32_t>(block.shape[k]);
    const auto rest = static_cast<uint32_t>(i);  // a block has fewer than 2^31 elements
    place += static_cast<int64_t>(rest % d) * block.stride[k];
    i = rest / d;
  }
  return place + i * block.stride[0];
}

SHAMPOO_DEVICE inline int64_t TileBegin(const DeviceTile& tile) { return tile.index * kTileElements; }
// Returns the number of elements in a tile of `whole`, which is a block, a slice or a parameter.
template <typename Whole>
SHAMPOO_DEVICE inline int64_t TileSize(const Whole& whole, const DeviceTile& tile) {
  const int64_t left = whole.elements - TileBegin(tile);
  return left < kTileElements ? left : kTileElements;
}

}  // namespace shampoo::cuda

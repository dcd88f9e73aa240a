// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/largest_magnitude.h"

#include <bit>

#include "core/base/convert.h"
#include "core/base/kernels/kernels.h"

namespace shampoo {

double LargestMagnitude(const void* data, Dtype dtype, int64_t n) {
  // Without the sign bit, the bit patterns of a floating-point type have the order of the values, with infinity above
  // all numbers and NaN above infinity. One integer maximum therefore finds NaN, infinity or the largest magnitude.
  const Kernels& kernels = BestKernels();
  switch (dtype) {
    case Dtype::kF32:
      return static_cast<double>(std::bit_cast<float>(kernels.largest_u32(static_cast<const uint32_t*>(data), n)));
    case Dtype::kF64:
      return std::bit_cast<double>(kernels.largest_u64(static_cast<const uint64_t*>(data), n));
    case Dtype::kF16:
      return static_cast<double>(HalfToFloat(kernels.largest_u16(static_cast<const uint16_t*>(data), n)));
    case Dtype::kBf16:
      return static_cast<double>(Bf16ToFloat(kernels.largest_u16(static_cast<const uint16_t*>(data), n)));
    default:
      return 0;
  }
}

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "half.h"

#include <math.h>
#include <string.h>

half to_half(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000u;
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return (half)(sign | kHalfNaN);
  if (bits >= 0x477ff000u) return (half)(sign | 0x7c00u);  // from 65520 on the nearest is infinity
  // Below 2^-14 they are whole multiples of 2^-24.
  if (bits < 0x38800000u) return (half)(sign | (uint32_t)lrintf(fabsf(x) * 0x1p24f));
  bits += 0x0fffu + (bits >> 13 & 1u);               // rounds the 13 bits that go; a carry enters the exponent
  return (half)(sign | (bits - 0x38000000u) >> 13);  // 112 less: biases of the exponents are 127 and 15
}

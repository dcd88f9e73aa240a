// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Numbers of 16 bits (IEEE 754 binary16), as a backward pass in half precision leaves its gradients: 11 bits of
// precision, and nothing finite above 65504.
#ifndef C_HOST_HALF_H
#define C_HOST_HALF_H

#include <stdint.h>

typedef uint16_t half;  // its bits; C99 has no type of its own for it

enum { kHalfNaN = 0x7e00 };

// The nearest one, of two the even one; above 65504 an infinity.
half to_half(float x);

#endif

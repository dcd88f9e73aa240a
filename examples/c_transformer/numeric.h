// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The number type of the program, matrix products, and functions that compilers can turn into vector instructions.
#ifndef C_TRANSFORMER_NUMERIC_H
#define C_TRANSFORMER_NUMERIC_H

#include <math.h>
#include <stdint.h>

#include "real.h"

// How multiply() uses an array a or b: as it is, or transposed.
typedef enum { kAsIs, kTransposed } Form;

// Computes C [m][n] = alpha * A B + beta * C. A is m x k and B is k x n. If a_form is kTransposed, a contains the
// transpose of A; the same holds for b_form and b. The rows of a, b and c begin a_stride, b_stride and c_stride values
// apart. If beta is 0, C is not read.
void multiply(Form a_form, Form b_form, int m, int n, int k, real alpha, const real* a, int a_stride, const real* b,
              int b_stride, real beta, real* c, int c_stride);

// Makes each product run on the thread that calls multiply, because this program runs whole sequences in parallel.
// threads: the number of threads that will call multiply. If it is above 1 and the BLAS is a serial build, which only
// one thread at a time may call, exits with an error.
void multiply_on_calling_threads(int threads);

// Number of partial sums in sum() and dot(). Compilers compute partial sums with vector instructions. Compilers are not
// allowed to split a single sum, because that would change the rounding.
enum { kLanes = 16 };

static inline real add_lanes(real* lanes) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  }
  return lanes[0];
}

static inline real sum(int n, const real* a) {
  real lanes[kLanes] = {0};
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lanes[j] += a[i + j];
  }
  for (; i < n; ++i) lanes[0] += a[i];
  return add_lanes(lanes);
}

static inline real dot(int n, const real* a, const real* b) {
  real lanes[kLanes] = {0};
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lanes[j] += a[i + j] * b[i + j];
  }
  for (; i < n; ++i) lanes[0] += a[i] * b[i];
  return add_lanes(lanes);
}

static inline real largest(int n, const real* a) {
  real lanes[kLanes];
  int i = 0;
  for (int j = 0; j < kLanes; ++j) lanes[j] = a[0];
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lanes[j] = a[i + j] > lanes[j] ? a[i + j] : lanes[j];
  }
  for (; i < n; ++i) lanes[0] = a[i] > lanes[0] ? a[i] : lanes[0];
  for (int j = 1; j < kLanes; ++j) lanes[0] = lanes[j] > lanes[0] ? lanes[j] : lanes[0];
  return lanes[0];
}

// Returns exp(x). If real is float, the result is a power of two times a Taylor series, with a relative error of about
// 2e-7. The code for float calls no other function, so that compilers can vectorize loops that call exponential(). It
// clamps x to [-87, 88], so that the result is in the range of floats.
static inline real exponential(real x) {
  union {
    float value;
    int32_t bits;
  } power;
  if (sizeof(real) == sizeof(double)) return (real)exp((double)x);
  const float y = (float)(x < -87 ? -87 : x > 88 ? 88 : x);
  // Adding 1.5 * 2^23 rounds to an integer, the exponent of the power of two. The low bits of the sum are this integer.
  power.value = y * 1.44269504f + 12582912.0f;
  const float powers = power.value - 12582912.0f;
  power.bits = (int32_t)((uint32_t)power.bits << 23) + 0x3f800000;      // the exponent field of 2^powers
  const float r = y - powers * 0.693359375f + powers * 2.12194440e-4f;  // ln 2 in two parts; the first product is exact
  const float series = 1 + r * (1 + r * (1 / 2.0f + r * (1 / 6.0f + r * (1 / 24.0f + r * (1 / 120.0f + r / 720)))));
  return (real)(series * power.value);
}

#endif

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace bench {

// Loops that measure the machine, in the widest vectors of this processor.
struct Kernels {
  const char* name;  // "avx512", "avx2", "baseline"
  // Multiplies and adds in registers, in enough independent chains to hide the latency. The result depends on all of
  // them, so that the compiler cannot remove any.
  float (*multiply_add)(int64_t rounds);
  int64_t flops_per_round;
  // Computes a[i] = k a[i] + b[i] for n elements, a multiple of 32. It moves 12 bytes per element: it reads both arrays
  // and writes one.
  void (*update)(float* a, const float* b, int64_t n);
};

const Kernels& KernelsOfThisCpu();

}  // namespace bench

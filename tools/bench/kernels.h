// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace bench {

// The loops that measure the limits of a machine, in the widest vectors of this processor.
struct Kernels {
  const char* name;  // "avx512", "avx2", "baseline"
  // Multiplies and adds in registers, in enough independent chains to hide the latency. Returns a value that depends on
  // all results, so that the compiler cannot remove the computation.
  float (*multiply_add)(int64_t rounds);
  int64_t flops_per_round;
  // Computes a[i] = k a[i] + b[i] for n elements, a multiple of 32. Moves 12 bytes for each element: every cache line
  // that is written was read before.
  void (*update)(float* a, const float* b, int64_t n);
};

const Kernels& KernelsOfThisCpu();

}  // namespace bench

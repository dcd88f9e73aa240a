// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace bench {

// What a machine is measured with, in the widest vectors that this processor has.
struct Kernels {
  const char* name;  // "avx512", "avx2", "baseline"
  // Multiplies and adds in registers, in as many independent chains as hide the latency. Returns something of it all,
  // so that nothing is left out.
  float (*multiply_add)(int64_t rounds);
  int64_t flops_per_round;
  // a[i] = k a[i] + b[i] for n elements, a multiple of 32: 12 bytes per element move, and no line is fetched only to be
  // overwritten.
  void (*update)(float* a, const float* b, int64_t n);
};

const Kernels& KernelsOfThisCpu();

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace bench {

// Loops that measure limits of the machine (machine.h). They use the widest vector instructions of the processor.
struct Kernels {
  const char* name;  // "avx512", "avx2", "baseline"
  // Computes multiply-adds in registers, in independent chains. A round is one multiply-add in each chain. There are so
  // many chains that the latency of a multiply-add does not limit the speed. The result depends on all chains, so the
  // compiler cannot remove a chain.
  float (*multiply_add)(int64_t rounds);
  int64_t flops_per_round;
  // Computes a[i] = k a[i] + b[i] for i < n, where k is a constant. n must be a multiple of 32. For each i, 12 bytes
  // are moved: a[i] and b[i] are read, and a[i] is written.
  void (*update)(float* a, const float* b, int64_t n);
};

const Kernels& KernelsOfThisCpu();

}  // namespace bench

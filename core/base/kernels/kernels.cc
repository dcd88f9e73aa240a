// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/kernels/kernels.h"

namespace shampoo {
namespace {

struct Usable {
  const Kernels* list[4] = {&kBaselineKernels, nullptr, nullptr, nullptr};
  int count = 1;

  Usable() {
#ifdef SHAMPOO_X86_KERNELS
    // __builtin_cpu_supports also checks that the operating system saves the registers of the instruction set.
    if (__builtin_cpu_supports("avx2")) list[count++] = &kAvx2Kernels;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq")) {
      list[count++] = &kAvx512Kernels;
    }
#endif
  }
};

const Usable& Found() {
  static const Usable usable;
  return usable;
}

}  // namespace

const Kernels& FindBestKernels() { return *Found().list[Found().count - 1]; }
const Kernels* const* UsableKernels() { return Found().list; }

}  // namespace shampoo

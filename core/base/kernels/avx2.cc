// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#ifdef SHAMPOO_X86_KERNELS  // core/CMakeLists.txt sets the compiler flags of this file
#include "core/base/kernels/loops.h"

namespace shampoo {
const Kernels kAvx2Kernels = MakeKernels("avx2");
}  // namespace shampoo
#endif

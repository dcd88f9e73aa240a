// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/kernels/loops.h"

namespace shampoo {
const Kernels kBaselineKernels = MakeKernels("baseline");
}  // namespace shampoo

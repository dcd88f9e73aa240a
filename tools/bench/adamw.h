// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/bench/cases.h"

namespace bench {

// Seconds of one step of AdamW over the tensors of a case, the shortest of so many runs: a plain loop for each tensor,
// as an application would write it, compiled with -O3 for the baseline of the architecture.
double TimeAdamw(const Case& of, int runs);

}  // namespace bench

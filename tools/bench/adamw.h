// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/bench/cases.h"

namespace bench {

// Returns the seconds of one step of AdamW over the tensors of a case, the shortest of several runs. The step is a
// plain loop for each tensor, as in an application. It is compiled with -O3 and without options for a newer processor.
double TimeAdamw(const Case& model, int runs);

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/bench/cases.h"

namespace bench {

// Makes `runs` steps of AdamW with the tensors of a case, and returns the seconds of the shortest step. For each
// tensor, a step runs a plain loop such as an application might contain. The loop is compiled with -O3 and without
// -march.
double TimeAdamw(const Case& model, int runs);

}  // namespace bench

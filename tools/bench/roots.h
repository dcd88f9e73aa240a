// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace bench {

// Prints a table of one inverse square root in float32 by order: its time with the default method and with
// eigenvectors, and its rate compared with products of the same order. Times are medians of the CPU time of this
// thread, over at least min_runs runs, which alternate with products.
void MeasureRoots(int min_runs);

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace bench {

// Prints a table of one inverse square root in float32 by order: its time by default and by eigenvectors, and its rate
// beside that of products of the same order. Times are medians of the processor time of this thread, over at least
// min_runs runs, which take turns with products.
void MeasureRoots(int min_runs);

}  // namespace bench

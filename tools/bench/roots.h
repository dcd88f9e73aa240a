// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace bench {

// Prints a table of inverse square roots in float32 by size: the time of the default method and of eigenvectors, and
// the rate compared with the rate of products of the same size. Times are medians of the processor time of this thread
// over at least min_runs runs, which alternate with products.
void MeasureRoots(int min_runs);

}  // namespace bench

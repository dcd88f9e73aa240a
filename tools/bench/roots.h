// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace bench {

// Prints how long the computation of an inverse square root in float32 takes, as a table with a row for each size. A
// row has the time of the default method, which computes no eigenvectors, and the time of the method with eigenvectors.
// The row also compares the flop rate of the default method with the rates of matrix products of the same size. A time
// is the median processor time of the calling thread in at least min_runs runs. Runs of roots and of products
// alternate.
void MeasureRoots(int min_runs);

}  // namespace bench

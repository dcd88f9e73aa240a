// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace bench {

// Prints a table of the Newton-Schulz iteration in float32. A row has the time of five steps on one thread for a shape,
// and the flop rate of these steps. The row compares this rate with two other measured rates: the peak rate of a
// thread, and the rate of one product of a matrix of this shape with a square matrix. A time is the processor time of
// the calling thread in the shortest of at least min_runs runs.
void MeasureOrthogonalization(int min_runs);

}  // namespace bench

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace bench {

// Prints a table of the Newton-Schulz iteration in float32 by shape: the time of five steps on one thread, and the rate
// compared with the peak rate of a thread and with that of a product, which are measured in the same run. Times are
// those of the processor for this thread: the shortest of at least min_runs runs.
void MeasureOrthogonalization(int min_runs);

}  // namespace bench

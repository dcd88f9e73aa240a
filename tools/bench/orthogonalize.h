// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace bench {

// Prints a table of the Newton-Schulz iteration in float32 by shape: the time of five steps on one thread, and their
// flop rate, compared with the peak rate of a thread and with the rate of a product. Both are measured in the same run.
// Times are processor times of this thread, the shortest of at least min_runs runs.
void MeasureOrthogonalization(int min_runs);

}  // namespace bench
